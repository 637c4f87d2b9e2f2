/* Fetching files from a server on this machine: mirrors, digests, interrupted and continued transfers, servers that misbehave. */
#include "core/sha256.h"
#include "data/transfer.h"
#include "folder.h"
#include "packed.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

enum { SIZE = 5000 };

/* ---- the server: one connection at a time ---- */

static struct {
    int       listening, port;
    pthread_t thread;
    uint8_t   content[SIZE];
    char      requests[4096]; /* "GET /path 1000-\n" each */
    int       cuts;           /* how many more answers end too soon */
    char      data[1024];     /* files below it are served, too */
} server;

static int send_all(int to, const void *data, size_t size)
{
    for (const char *p = data; size;) {
        const ssize_t n = send(to, p, size, MSG_NOSIGNAL);
        if (n <= 0) return 0;
        p += n;
        size -= (size_t)n;
    }
    return 1;
}

static void send_text(int to, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    send_all(to, text, strlen(text));
}

static void serve_bytes(int to, const uint8_t *bytes, long size, long from, int with_range, int cut)
{
    if (!with_range) from = 0;
    if (from && from >= size) {
        send_text(to, "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n");
        return;
    }
    if (from) send_text(to, "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes %ld-%ld/%ld\r\n", from, size - 1, size);
    else send_text(to, "HTTP/1.1 200 OK\r\n");
    send_text(to, "Content-Length: %ld\r\nConnection: close\r\n\r\n", size - from);
    send_all(to, bytes + from, (size_t)(cut && server.cuts-- > 0 ? lki_min(1000, size - from) : size - from));
}

static void serve_file(int to, const char *path, long from)
{
    static uint8_t bytes[2 << 20];
    char           name[2048];
    snprintf(name, sizeof name, "%s%s", server.data, path);
    FILE *f = server.data[0] ? fopen(name, "rb") : NULL;
    if (f) serve_bytes(to, bytes, (long)fread(bytes, 1, sizeof bytes, f), from, 1, 0);
    else send_text(to, "HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found");
    if (f) fclose(f);
}

static void wait_for_the_end(int of)
{
    char byte;
    while (recv(of, &byte, 1, 0) > 0) {}
}

static void serve(int to, const char *path, long from)
{
    static const uint8_t other[SIZE];
    if (!strcmp(path, "/ok")) serve_bytes(to, server.content, SIZE, from, 1, 0);
    else if (!strcmp(path, "/cut")) serve_bytes(to, server.content, SIZE, from, 1, 1);
    else if (!strcmp(path, "/norange")) serve_bytes(to, server.content, SIZE, from, 0, 1);
    else if (!strcmp(path, "/wrong")) serve_bytes(to, other, SIZE, from, 1, 0);
    else if (!strcmp(path, "/empty")) serve_bytes(to, other, 0, 0, 0, 0);
    else if (!strcmp(path, "/moved")) send_text(to, "HTTP/1.1 302 Found\r\nLocation: /ok\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(path, "/round")) send_text(to, "HTTP/1.1 302 Found\r\nLocation: /round\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(path, "/escape"))
        send_text(to, "HTTP/1.1 302 Found\r\nLocation: file:///etc/hostname\r\nContent-Length: 0\r\n\r\n");
    else if (!strcmp(path, "/silent")) wait_for_the_end(to);
    else if (!strcmp(path, "/huge")) send_text(to, "HTTP/1.1 200 OK\r\nContent-Length: 900000000000000\r\n\r\n");
    else if (!strcmp(path, "/endless")) {
        send_text(to, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
        while (send_all(to, server.content, SIZE)) {}
    } else serve_file(to, path, from);
}

static void answer(int connection)
{
    char   request[2048] = "", path[512] = "";
    long   from = 0;
    size_t size = 0;
    while (!strstr(request, "\r\n\r\n") && size + 1 < sizeof request) {
        const ssize_t n = recv(connection, request + size, sizeof request - 1 - size, 0);
        if (n <= 0) return;
        size += (size_t)n;
        request[size] = 0;
    }
    sscanf(request, "GET %511s", path);
    const char *range = strstr(request, "Range: bytes=");
    if (range) sscanf(range, "Range: bytes=%ld-", &from);
    const size_t used = strlen(server.requests);
    snprintf(server.requests + used, sizeof server.requests - used, "%s %ld\n", path, from);
    serve(connection, path, from);
}

static void *run_server(void *unused)
{
    (void)unused;
    for (int connection; (connection = accept(server.listening, NULL, NULL)) >= 0;) {
        answer(connection);
        shutdown(connection, SHUT_WR);
        wait_for_the_end(connection);
        close(connection);
    }
    return NULL;
}

static void start_server(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof at;
    for (int i = 0; i < SIZE; i++)
        server.content[i] = (uint8_t)(i * 7 + i / 256);
    server.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.listening, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server.listening, 8), 0);
    assert_int_equal(getsockname(server.listening, (struct sockaddr *)&at, &size), 0);
    server.port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&server.thread, NULL, run_server, NULL), 0);
}

/* "http://127.0.0.1:PORT/path"; eight are good at a time. */
static const char *url(const char *path)
{
    static char text[8][128];
    static int  next;
    char       *out = text[next++ % 8];
    snprintf(out, sizeof text[0], "http://127.0.0.1:%d%s", server.port, path);
    return out;
}

/* ---- what the tests share ---- */

static void silence(const char *text, void *user) { (void)text, (void)user; }

static const char *folder;
static char        digest[65];

static void ready(const char *file) /* nothing was asked for, nothing is there */
{
    char part[600];
    server.requests[0] = 0;
    server.cuts = 0;
    snprintf(part, sizeof part, "%s.part", file);
    remove(file);
    remove(part);
}

static const char *here(void) { return folder_file(folder, "file"); }

static void has_content(const char *path)
{
    uint8_t      bytes[SIZE + 1];
    FILE        *f = fopen(path, "rb");
    const size_t got = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) fclose(f);
    assert_int_equal(got, SIZE);
    assert_memory_equal(bytes, server.content, SIZE);
    assert_false(file_exists(folder_file(folder, "file.part")));
}

static void was_asked(const char *requests)
{
    if (strcmp(server.requests, requests) != 0) print_error("asked for\n%sinstead of\n%s", server.requests, requests);
    assert_string_equal(server.requests, requests);
}

#define FETCHED(...)                                                                                                               \
    do {                                                                                                                           \
        const lk_status status_ = lk_fetch(__VA_ARGS__);                                                                           \
        good();                                                                                                                    \
        assert_int_equal(status_, LK_OK);                                                                                          \
    } while (0)

#define NOT_FETCHED(code, words, ...)                                                                                              \
    do {                                                                                                                           \
        assert_int_equal(lk_fetch(__VA_ARGS__), code);                                                                             \
        failed_with(code, words);                                                                                                  \
    } while (0)

/* ---- tests ---- */

TEST(a_file)
{
    LK_POOL {
        ready(here());
        FETCHED(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        FETCHED(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest); /* it is there */
        was_asked("/ok 0\n");
        lk_set_log(keep_log, NULL);
        write_file(here(), "something else", 14);
        FETCHED(LK_NAMES(url("/moved")), .path = here(), .sha256 = digest);
        lk_set_log(silence, NULL);
        has_content(here());
        assert_non_null(strstr(log_text, "exists but is wrong: its SHA-256 is"));
        ready(here());
        FETCHED(LK_NAMES(url("/ok")), .path = here()); /* without a digest */
        has_content(here());
        write_file(here(), "something else", 14);
        FETCHED(LK_NAMES(url("/ok")), .path = here()); /* what is there is kept */
        was_asked("/ok 0\n");
        const char *deep = folder_file(folder, "some/folders/deep/file");
        FETCHED(LK_NAMES(url("/empty")), .path = deep);
        assert_int_equal(file_size(deep), 0);
        char local[600];
        snprintf(local, sizeof local, "file://%s", here());
        ready(deep);
        FETCHED(LK_NAMES(local), .path = deep);
        assert_int_equal(file_size(deep), 14);
    }
}

TEST(mirrors)
{
    LK_POOL {
        char gone[256];
        ready(here());
        snprintf(gone, sizeof gone, "file://%s", folder_file(folder, "gone"));
        FETCHED(LK_NAMES(url("/missing"), gone, url("/wrong"), url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/missing 0\n/wrong 0\n/ok 0\n");
        ready(here());
        NOT_FETCHED(LK_EIO, "/missing: HTTP status 404; http://127.0.0.1", LK_NAMES(url("/missing"), url("/wrong")), .path = here(),
                    .sha256 = digest);
        NOT_FETCHED(LK_EIO, "/wrong: its SHA-256 is ", LK_NAMES(url("/missing"), url("/wrong")), .path = here(), .sha256 = digest);
        NOT_FETCHED(LK_EIO, "/round: Maximum (10) redirects followed", LK_NAMES(url("/round")), .path = here());
        NOT_FETCHED(LK_EIO, "; without the network, put it at /", LK_NAMES(url("/escape")), .path = here());
        NOT_FETCHED(LK_EIO, "http://no-such-host.invalid/x: ", LK_NAMES("http://no-such-host.invalid/x"), .path = here());
        assert_false(file_exists(here()));
        assert_false(file_exists(folder_file(folder, "file.part")));
    }
}

TEST(cut_off_and_continued)
{
    LK_POOL {
        ready(here());
        server.cuts = 3;
        FETCHED(LK_NAMES(url("/cut")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/cut 0\n/cut 1000\n/cut 2000\n/cut 3000\n");

        ready(here());
        server.cuts = 100; /* the first mirror is given up, the second continues */
        FETCHED(LK_NAMES(url("/cut"), url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        assert_non_null(strstr(server.requests, "/cut 4000\n"));

        ready(here());
        server.cuts = 100; /* given up altogether, continued by a later call */
        NOT_FETCHED(LK_EIO, "/missing: HTTP status 404", LK_NAMES(url("/missing")), .path = here(), .sha256 = digest);
        write_file(folder_file(folder, "file.part"), server.content, 1234);
        NOT_FETCHED(LK_EIO, "HTTP status 404", LK_NAMES(url("/missing")), .path = here(), .sha256 = digest);
        assert_int_equal(file_size(folder_file(folder, "file.part")), 1234);
        server.requests[0] = 0;
        FETCHED(LK_NAMES("file:///no/such/file", url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/ok 1234\n");

        ready(here());
        server.cuts = 1; /* without a digest nothing is continued */
        NOT_FETCHED(LK_EIO, "/cut: ", LK_NAMES(url("/cut")), .path = here());
        was_asked("/cut 0\n");
        assert_false(file_exists(folder_file(folder, "file.part")));
    }
}

TEST(what_was_left_is_of_no_use)
{
    LK_POOL {
        const char *part = folder_file(folder, "file.part");
        ready(here());
        server.cuts = 1; /* a server that starts from the beginning each time */
        FETCHED(LK_NAMES(url("/norange")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/norange 0\n/norange 1000\n");

        ready(here());
        write_file(part, "of another file", 15);
        FETCHED(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/ok 15\n/ok 0\n");

        ready(here());
        uint8_t longer[SIZE + 10] = {0}; /* longer than the file: the server says 416 */
        write_file(part, longer, sizeof longer);
        FETCHED(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("/ok 5010\n/ok 0\n");

        ready(here());
        write_file(part, server.content, SIZE); /* everything but the last step was done */
        FETCHED(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest);
        has_content(here());
        was_asked("");
    }
}

TEST(servers_that_misbehave)
{
    LK_POOL {
        ready(here());
        FETCHED(LK_NAMES(url("/silent"), url("/ok")), .path = here(), .sha256 = digest, .timeout = 0.2);
        has_content(here());
        ready(here());
        NOT_FETCHED(LK_EIO, "/huge: larger than 68719476736 bytes", LK_NAMES(url("/huge")), .path = here());
        NOT_FETCHED(LK_EIO, "/endless: larger than 1000000 bytes", LK_NAMES(url("/endless")), .path = here(),
                    .most_bytes = 1000000);
        NOT_FETCHED(LK_EIO, "/endless: larger than 1000000 bytes", LK_NAMES(url("/endless")), .path = here(), .sha256 = digest,
                    .most_bytes = 1000000);
        assert_false(file_exists(folder_file(folder, "file.part")));
        assert_false(file_exists(here()));
    }
}

/* Several at once: one fetches, the others wait and find it. */
static void *fetch_it(void *path)
{
    lk_status status = LK_OK;
    LK_POOL
        status = lk_fetch(LK_NAMES(url("/ok")), .path = path, .sha256 = digest);
    return status == LK_OK ? path : NULL;
}

TEST(several_at_once)
{
    pthread_t   thread[4];
    void       *done;
    const char *path = here();
    ready(path);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fetch_it, (void *)path), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &done);
        assert_non_null(done);
    }
    has_content(path);
    was_asked("/ok 0\n");
}

TEST(offline)
{
    LK_POOL {
        ready(here());
        setenv("LOCKSTEP_OFFLINE", "1", 1);
        NOT_FETCHED(LK_ENOTFOUND, "lk_fetch: LOCKSTEP_OFFLINE is set, so http://127.0.0.1", LK_NAMES(url("/ok")), .path = here());
        NOT_FETCHED(LK_ENOTFOUND, "/file by hand", LK_NAMES(url("/ok")), .path = here());
        was_asked("");
        setenv("LOCKSTEP_OFFLINE", "0", 1);
        FETCHED(LK_NAMES(url("/ok")), .path = here());
        setenv("LOCKSTEP_OFFLINE", "1", 1);
        FETCHED(LK_NAMES(url("/ok")), .path = here()); /* it is there */
        unsetenv("LOCKSTEP_OFFLINE");
    }
}

/* From a custom mirror, packed differently. */
TEST(mnist)
{
    const char *data = folder_or_skip("LOCKSTEP_DATA"); /* what is served as MNIST */
    LK_POOL {
        char before[1024], base[128];
        snprintf(before, sizeof before, "%s", data);
        snprintf(server.data, sizeof server.data, "%s", data);
        snprintf(base, sizeof base, "%s", url("/"));
        ready(here());
        unsetenv("LOCKSTEP_DATA");
        setenv("XDG_CACHE_HOME", folder, 1);
        setenv("LOCKSTEP_MIRROR", base, 1);
        assert_int_equal(lk_dataset_cardinality(lk_mnist(.split = LK_TEST)), 10000);
        assert_int_equal(lk_dataset_cardinality(lk_mnist(.split = LK_TEST)), 10000); /* it is there */
        good();
        was_asked("/mnist/t10k-images-idx3-ubyte.gz 0\n/mnist/t10k-labels-idx1-ubyte.gz 0\n");
        assert_true(file_exists(folder_file(folder, "lockstep/mnist/t10k-labels-idx1-ubyte.gz")));
        REFUSED(lk_fashion_mnist(.split = LK_TEST, .download = LK_OFF), LK_ENOTFOUND, "lockstep/fashion-mnist;");

        /* What is right is kept, what is damaged fetched again; a plain file in the way goes. */
        server.requests[0] = 0;
        assert_int_equal(lk_dataset_cardinality(lk_mnist(.split = LK_TEST, .verify = LK_ON)), 10000);
        was_asked("");
        write_file(folder_file(folder, "lockstep/mnist/t10k-labels-idx1-ubyte.gz"), "damaged", 7);
        write_file(folder_file(folder, "lockstep/mnist/t10k-images-idx3-ubyte"), "damaged", 7);
        lk_mnist(.split = LK_TEST);
        assert_true(lk_failed());
        lk_clear_error();
        assert_int_equal(lk_dataset_cardinality(lk_mnist(.split = LK_TEST, .verify = LK_ON)), 10000);
        good();
        was_asked("/mnist/t10k-labels-idx1-ubyte.gz 0\n"); /* the packed images were still there */
        assert_false(file_exists(folder_file(folder, "lockstep/mnist/t10k-images-idx3-ubyte")));
        setenv("LOCKSTEP_DATA", before, 1);
        unsetenv("XDG_CACHE_HOME");
        unsetenv("LOCKSTEP_MIRROR");
        server.data[0] = 0;
    }
}

TEST(mistakes)
{
    LK_POOL {
        NOT_FETCHED(LK_EINVAL, "lk_fetch: no .urls", .path = here());
        NOT_FETCHED(LK_EINVAL, "no .path", LK_NAMES("http://x/y"));
        NOT_FETCHED(LK_EINVAL, "URL 1 is \"ftp://x/y\"; it must begin with https://, http:// or file://",
                    LK_NAMES("http://x/y", "ftp://x/y"), .path = here());
        NOT_FETCHED(LK_EINVAL, "URL 0 is \"/etc/passwd\"", LK_NAMES("/etc/passwd"), .path = here());
        NOT_FETCHED(LK_EINVAL, ".sha256 = \"abc\"; it must be 64 hexadecimal digits", LK_NAMES("http://x/y"), .path = here(),
                    .sha256 = "abc");
        NOT_FETCHED(LK_EINVAL, ".timeout = -1", LK_NAMES("http://x/y"), .path = here(), .timeout = -1);
    }
}

TEST(folders_that_cannot_be_written)
{
    LK_POOL {
        NOT_FETCHED(LK_EIO, "/proc/no: cannot make a folder of it", LK_NAMES(url("/ok")), .path = "/proc/no/such/folder/file");
        write_file(folder_file(folder, "plain"), "", 0);
        NOT_FETCHED(LK_EIO, "plain", LK_NAMES(url("/ok")), .path = folder_file(folder, "plain/file"));
    }
}

TEST(without_libcurl)
{
    LK_POOL
        NOT_FETCHED(LK_EUNSUPPORTED, "needs libcurl.so.4, which was not found (Debian: apt-get install libcurl4); or put it at ",
                    LK_NAMES("http://127.0.0.1/x"), .path = here());
}

static int fetches_it(void)
{
    lk_status status = LK_ENOMEM;
    ready(here());
    LK_POOL
        status = lk_fetch(LK_NAMES(url("/ok")), .path = here(), .sha256 = digest);
    return status == LK_OK;
}

TEST(every_allocation)
{
    assert_true(fetches_it());
    assert_true(check_every_allocation(fetches_it) > 3);
}

int main(int argc, char **argv)
{
    (void)argc, (void)argv;
    const struct CMUnitTest with[] = {cmocka_unit_test(mistakes),
                                      cmocka_unit_test(a_file),
                                      cmocka_unit_test(mirrors),
                                      cmocka_unit_test(cut_off_and_continued),
                                      cmocka_unit_test(what_was_left_is_of_no_use),
                                      cmocka_unit_test(servers_that_misbehave),
                                      cmocka_unit_test(several_at_once),
                                      cmocka_unit_test(offline),
                                      cmocka_unit_test(mnist),
                                      cmocka_unit_test(folders_that_cannot_be_written),
                                      cmocka_unit_test(every_allocation)};
    const struct CMUnitTest without[] = {cmocka_unit_test(mistakes), cmocka_unit_test(without_libcurl)};
    char                    own[64];
    lki_sha256              h;
    uint8_t                 bytes[32];
    snprintf(own, sizeof own, "%s", folder_new());
    folder = own;
    lk_set_log(silence, NULL);
    setenv("no_proxy", "127.0.0.1,.invalid", 1);
    unsetenv("LOCKSTEP_OFFLINE");
    start_server();
    lki_sha256_begin(&h);
    lki_sha256_add(&h, server.content, SIZE);
    lki_sha256_end(&h, bytes);
    for (int i = 0; i < 32; i++)
        snprintf(digest + 2 * i, 3, "%02X", bytes[i]);
    if (!lki_transfer_possible()) printf("libcurl.so.4 is not installed (Debian: libcurl4): nothing is fetched\n");
    const int failed = lki_transfer_possible() ? cmocka_run_group_tests_name("fetch", with, NULL, NULL)
                                               : cmocka_run_group_tests_name("fetch", without, NULL, NULL);
    shutdown(server.listening, SHUT_RDWR);
    close(server.listening);
    pthread_join(server.thread, NULL);
    folder_remove(own);
    return failed;
}
