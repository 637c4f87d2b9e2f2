"""everyday.py PROGRAM [--only NAME] [--list] [--keep FOLDER]: models as people write them, exchanged with lockstep.

They are the models of Keras' code examples and guides and of tutorials, small (everyday_models/). PROGRAM is build/release/tests/
interop/models; what is compared, and what the verdicts mean, says exchange.py. A model that lockstep refuses is a failure too,
unless it is in EXPECTED with the reason. The last line is "N passed, N failed"."""
import argparse
import os
import sys
import time

CODE = "custom code: it is to be registered in C by its name"
TEXT = "layers on strings"
LATER = "not built yet"
EXPECTED = {
    "vae_lambda": CODE, "vae_encoder_custom_sampling": CODE, "subclassed_model": CODE, "super_resolution_depth_to_space": CODE,
    "transformer_text_custom_layers": CODE, "siamese_lambda_distance": CODE, "distiller_model": CODE, "lambda_python": CODE,
    "custom_loss_function": CODE, "text_vectorization_end_to_end": TEXT, "structured_string_lookup": TEXT,
    "structured_discretization_hashing": LATER, "lora_dense": LATER, "quantized_int8": LATER, "convlstm2d_frames": LATER,
    "stateful_lstm": LATER,
}


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program")
    parser.add_argument("--only", help="models whose names have this in them")
    parser.add_argument("--list", action="store_true", help="print the names")
    parser.add_argument("--keep", help="a folder where the files stay")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    parser.add_argument("--part", help="for its own processes: i/n")
    return parser.parse_args(argv)


def one(name, arguments):
    import everyday_models
    import exchange

    def make():
        everyday_models.seed(exchange.seed_of(name))
        made = everyday_models.MODELS[name]()
        exchange.shake(made[0], everyday_models.common.state["random"])
        return exchange.Case(*made)

    begun = time.time()
    verdict, why = exchange.exchange(arguments.program, make, name, arguments.keep and os.path.join(arguments.keep, name))
    return verdict, why, time.time() - begun


def table(found):
    """Prints it; returns how many are right and how many are not."""
    good, counts = 0, {}
    for name, (verdict, why) in found.items():
        expected = verdict == "refused" and name in EXPECTED
        counted = "refused as expected" if expected else verdict
        counts[counted] = counts.get(counted, 0) + 1
        good += expected or verdict == "full"
        mark = "" if expected or verdict == "full" else "FAILED "
        print("%s%-48s %-8s %s%s" % (mark, name, verdict, "(%s) " % EXPECTED[name] if expected else "", why))
    print("%d models: %s" % (len(found), ", ".join("%d %s" % (n, v) for v, n in sorted(counts.items()))))
    return good, len(found) - good


def main():
    arguments = arguments_of(sys.argv[1:])
    import exchange
    import everyday_models
    names = [n for n in everyday_models.MODELS if not arguments.only or arguments.only in n]
    if arguments.list:
        print("\n".join(names))
        return 0
    if arguments.part or arguments.jobs < 2 or len(names) < 8:
        part, _, parts = (arguments.part or "0/1").partition("/")
        found = {}
        for name in names[int(part)::int(parts)]:
            verdict, why, seconds = one(name, arguments)
            found[name] = (verdict, why)
            exchange.say(name, verdict, why) if arguments.part else None
        if arguments.part:
            return 0
    else:
        found = exchange.share(names, arguments)
    passed, failed = table({n: found[n] for n in names})
    print("%d passed, %d failed" % (passed, failed))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
