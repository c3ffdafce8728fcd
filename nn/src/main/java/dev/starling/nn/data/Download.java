package dev.starling.nn.data;

import dev.starling.errors.PlainFile;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One file to download over HTTP: its addresses, its length and its digest. Nothing is downloaded until {@link #to} is
 * called.
 *
 * <p>The bytes go to a temporary file beside the target while their SHA-256 is computed. Only a file of the right
 * length and digest is renamed, atomically, to the target. A target that exists is therefore complete, whatever
 * happened before.
 *
 * @param mirrors addresses of the file, tried in this order
 * @param lengthBytes its exact length in bytes; a longer body is cut off immediately
 * @param sha256 its SHA-256 in lower-case hexadecimal
 */
public record Download(List<URI> mirrors, long lengthBytes, String sha256) {
    private static final long POLL_MS = 100;

    /** Checks the arguments and copies the list. */
    public Download {
        mirrors = List.copyOf(mirrors);
        if (mirrors.isEmpty() || lengthBytes < 0 || !sha256.matches("[0-9a-f]{64}")) {
            throw TensorException.argument("download",
                    "expected a mirror, a length and 64 lower-case hexadecimal digits,"
                    + " found " + mirrors + ", " + lengthBytes + " and " + sha256, "correct them");
        }
    }

    /**
     * Timeouts. Each wait of a download is bounded by one of them.
     *
     * @param connect time to establish a connection
     * @param stall time without a byte arriving
     * @param overall time from the first request to the last byte, for one mirror
     */
    public record Deadlines(Duration connect, Duration stall, Duration overall) {
        /** Ten seconds to connect, thirty seconds without a byte, one hour overall. */
        public static final Deadlines DEFAULT =
            new Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(30), Duration.ofHours(1));

        /** Limits each to 292 years, the longest time in nanoseconds. */
        public Deadlines {
            connect = limited(connect);
            stall = limited(stall);
            overall = limited(overall);
        }

        private static Duration limited(Duration time) {
            return Duration.ofNanos(TimeUnit.NANOSECONDS.convert(time));
        }
    }

    /** Is notified of the progress of a download, on the thread that called {@link Download#to}. */
    @FunctionalInterface
    public interface Progress {
        /**
         * Reports progress.
         *
         * @param receivedBytes bytes received so far from the current mirror
         * @param totalBytes bytes of the whole file
         */
        void advance(long receivedBytes, long totalBytes);
    }

    /** Returns the file's name: the text after the last slash of the first mirror. */
    public String fileName() {
        String path = mirrors.getFirst().getPath();
        return path.substring(path.lastIndexOf('/') + 1);
    }

    /**
     * Downloads the file, trying each mirror once. Blocks until the file is complete or every mirror has failed. An
     * interrupt aborts the download and the thread's interrupt status stays set.
     *
     * @param target path of the file; its directory is created, an existing file is replaced
     * @param deadlines how long to wait
     * @param progress is notified of the progress
     * @throws DataException if no mirror delivered the file; the message gives the reason for each mirror, and the
     *     target is unchanged
     */
    public void to(Path target, Deadlines deadlines, Progress progress) {
        StringBuilder failures = new StringBuilder();
        IOException last = null;
        HttpClient client = HttpClient.newBuilder().connectTimeout(deadlines.connect())
            .followRedirects(HttpClient.Redirect.NORMAL).build();
        try {
            for (URI mirror : mirrors) {
                try {
                    fetch(client, mirror, target, deadlines, progress);
                    return;
                } catch (IOException e) {
                    failures.append(failures.isEmpty() ? "" : "; ").append(mirror).append(": ").append(reason(e));
                    last = e;
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new DataException(target, "a finished download", "an interrupt of the thread",
                    "start the download again", e);
        } finally {
            client.shutdownNow(); // not close(), which waits until a stalled server finishes
        }
        throw new DataException(target, lengthBytes + " bytes with SHA-256 " + sha256, "no usable download (" + failures
            + ")", "check the network and the free disk space, or place the file there manually", last);
    }

    private void fetch(HttpClient client, URI mirror, Path file, Deadlines deadlines, Progress progress)
        throws IOException, InterruptedException {
        Path target = PlainFile.target(file);
        Files.createDirectories(target.getParent());
        Path partial = PlainFile.draft(target);
        partial.toFile().deleteOnExit();
        try {
            String digest;
            try (DigestedFile body = new DigestedFile(partial, lengthBytes)) {
                HttpRequest request = HttpRequest.newBuilder(mirror).timeout(deadlines.overall()).build();
                CompletableFuture<HttpResponse<Void>> response = client.sendAsync(request, head -> {
                    body.checkStatus(head.statusCode());
                    return HttpResponse.BodySubscribers.fromSubscriber(body);
                });
                await(response, body, deadlines, progress);
                digest = body.finish();
            }
            if (!digest.equals(sha256)) {
                throw new IOException("SHA-256 is " + digest + ", but should be " + sha256);
            }
            PlainFile.rename(partial, target);
        } finally {
            Files.deleteIfExists(partial);
        }
    }

    private void await(CompletableFuture<?> response, DigestedFile body, Deadlines deadlines, Progress progress)
        throws IOException, InterruptedException {
        long startNs = System.nanoTime();
        long movedNs = startNs;
        long previous = 0;
        try {
            while (true) {
                try {
                    response.get(POLL_MS, TimeUnit.MILLISECONDS);
                    progress.advance(body.received(), lengthBytes);
                    return;
                } catch (TimeoutException e) {
                    long nowNs = System.nanoTime();
                    long received = body.received();
                    progress.advance(received, lengthBytes);
                    movedNs = received > previous ? nowNs : movedNs;
                    previous = received;
                    requireWithin(deadlines.stall(), nowNs - movedNs, "no byte for", received);
                    requireWithin(deadlines.overall(), nowNs - startNs, "not finished within", received);
                }
            }
        } catch (ExecutionException e) {
            IOException failure = body.failure();
            throw failure != null ? failure : new IOException(reason(Objects.requireNonNull(e.getCause())), e);
        } finally {
            response.cancel(true);
        }
    }

    private void requireWithin(Duration deadline, long elapsedNs, String what, long received) throws IOException {
        if (elapsedNs > deadline.toNanos()) {
            throw new IOException(what + " " + deadline.toMillis() + " ms, after " + received + " of " + lengthBytes
                + " bytes");
        }
    }

    private static String reason(Throwable e) {
        String name = e.getClass().getSimpleName();
        if (e.getMessage() != null) {
            // The message of these exceptions is a name only: of a host, or of a file.
            return e instanceof ConnectException || e instanceof FileSystemException ? name + ": " + e.getMessage()
                    : e.getMessage();
        }
        return e.getCause() == null ? name : name + " (" + reason(e.getCause()) + ")";
    }
}
