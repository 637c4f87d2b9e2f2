# Completion of `lockstep` for bash: commands, the options each of them lists in its help, names of models, data sets and files.
_lockstep_options() { "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p'; }

_lockstep_files() { # suffixes: files that end so, and folders
    local suffix
    compgen -d -- "$current"
    for suffix; do compgen -f -X "!*$suffix" -- "$current"; done
}

_lockstep() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} program=${COMP_WORDS[0]}
    local commands="train evaluate predict summary convert inspect devices data plot bench doctor help" models="basic fashion mlp"
    local data="digits mnist fashion-mnist" tables=".csv .csv.gz .tsv .npz .npy .tfrecord .tfrecord.gz -ubyte" found=
    [ "$before" = "=" ] && before=${COMP_WORDS[COMP_CWORD - 2]}
    [ "$current" = "=" ] && current=
    compopt -o filenames 2>/dev/null

    if [ "$COMP_CWORD" -eq 1 ]; then
        found=$(compgen -W "$commands --help --version" -- "$current")
    elif [[ $current == -* ]]; then
        found=$(compgen -W "$(_lockstep_options "$program" "$command")" -- "$current")
    else
        case $before in
        --data | --validation) found=$(compgen -W "$data" -- "$current"; _lockstep_files $tables) ;;
        --save | --tensorboard) found=$(compgen -d -- "$current") ;;
        --plot) found=$(_lockstep_files .svg .png) ;;
        --model) found=$(_lockstep_files .keras .h5 .json) ;;
        --out) found=$(_lockstep_files .npy .npz .csv) ;;
        --optimizer) found=$(compgen -W "adam sgd rmsprop adamw adamax nadam lion lamb adagrad adadelta ftrl" -- "$current") ;;
        --loss)
            found=$(compgen -W "sparse_categorical_crossentropy categorical_crossentropy binary_crossentropy mean_squared_error \
                mean_absolute_error huber kl_divergence cosine_similarity" -- "$current") ;;
        --metrics) found=$(compgen -W "accuracy auc precision recall mean_absolute_error mean_squared_error" -- "$current") ;;
        --verbose) found=$(compgen -W "0 1 2" -- "$current") ;;
        --devices) found=$(compgen -W "$("$program" devices 2>/dev/null | sed 's/ .*//')" -- "$current") ;;
        --epochs | --steps | --save-every | --batch | --rows | --replicas | --lanes | --threads | --learning-rate | --seed | \
            --validation-split | --scale | --label | --delimiter | --features | --image-size) ;;
        *)
            case $command in
            train | summary | bench) found=$(compgen -W "$models" -- "$current"; _lockstep_files .keras .json) ;;
            evaluate | predict) found=$(_lockstep_files .keras) ;;
            convert | inspect) found=$(compgen -f -- "$current") ;;
            plot) found=$(_lockstep_files .csv .svg .png) ;;
            help) found=$(compgen -W "$commands" -- "$current") ;;
            data)
                case $before in
                data) found=$(compgen -W "list fetch inspect" -- "$current") ;;
                fetch) found=$(compgen -W "mnist fashion-mnist" -- "$current") ;;
                inspect) found=$(compgen -W "$data" -- "$current"; _lockstep_files $tables) ;;
                esac ;;
            esac ;;
        esac
    fi
    mapfile -t COMPREPLY <<<"$found"
    [ -n "$found" ] || COMPREPLY=()
}

complete -F _lockstep lockstep
