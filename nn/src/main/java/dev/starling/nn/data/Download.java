package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One file to fetch over HTTP: where it is, how long it is and what its digest is. Nothing is fetched until
 * {@link #to} is called.
 *
 * <p>The bytes go to a temporary file beside the target while their SHA-256 is computed; only a file of the right
 * length and digest is renamed, atomically, to the target. So a target that exists is whole, whatever happened before.
 *
 * @param mirrors where the file can be had, tried in this order
 * @param lengthBytes its exact length in bytes; a longer body is cut off at once
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
                    + " found " + mirrors + ", " + lengthBytes + " and " + sha256, "change them");
        }
    }

    /**
     * How long to wait. Every wait of a download is bounded by one of these.
     *
     * @param connect to establish a connection
     * @param stall without a byte arriving
     * @param overall from the first request to the last byte, over one mirror
     */
    public record Deadlines(Duration connect, Duration stall, Duration overall) {
        /** Ten seconds to connect, thirty without a byte, one hour overall. */
        public static final Deadlines DEFAULT =
            new Deadlines(Duration.ofSeconds(10), Duration.ofSeconds(30), Duration.ofHours(1));
    }

    /** Is told now and then, on the thread that called {@link Download#to}, how far a download has come. */
    @FunctionalInterface
    public interface Progress {
        /**
         * @param receivedBytes bytes received so far from the current mirror
         * @param totalBytes bytes of the whole file
         */
        void advance(long receivedBytes, long totalBytes);
    }

    /** The file's name: what follows the last slash of the first mirror. */
    public String fileName() {
        String path = mirrors.getFirst().getPath();
        return path.substring(path.lastIndexOf('/') + 1);
    }

    /**
     * Fetches the file, trying each mirror once. Blocks until the file is there or every mirror has failed; an
     * interrupt abandons the download and stays set.
     *
     * @param target where the file is to be; its directory is made, a file already there is replaced
     * @param deadlines how long to wait
     * @param progress is told how far it has come
     * @throws DataException if no mirror delivered the file; the message says why for each, and the target is as it was
     */
    public void to(Path target, Deadlines deadlines, Progress progress) {
        StringBuilder failures = new StringBuilder();
        IOException last = null;
        HttpClient client = HttpClient.newBuilder().connectTimeout(deadlines.connect())
            .followRedirects(HttpClient.Redirect.NORMAL).build();
        try {
            for (URI mirror : mirrors) {
                try {
                    fetch(client, mirror, target.toAbsolutePath(), deadlines, progress);
                    return;
                } catch (IOException e) {
                    failures.append(failures.isEmpty() ? "" : "; ").append(mirror).append(": ").append(reason(e));
                    last = e;
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new DataException(target, "a finished download", "an interrupt", "run it again", e);
        } finally {
            client.shutdownNow(); // and not close(), which waits for as long as a stalled peer likes
        }
        throw new DataException(target, lengthBytes + " bytes with SHA-256 " + sha256, "no usable download (" + failures
            + ")", "check the network and the free disk space, or put the file there yourself", last);
    }

    private void fetch(HttpClient client, URI mirror, Path target, Deadlines deadlines, Progress progress)
        throws IOException, InterruptedException {
        Files.createDirectories(target.getParent());
        Path partial = Files.createTempFile(target.getParent(), target.getFileName() + ".", ".part");
        partial.toFile().deleteOnExit();
        try {
            String digest;
            try (DigestedFile body = new DigestedFile(partial, lengthBytes)) {
                HttpRequest request = HttpRequest.newBuilder(mirror).timeout(deadlines.overall()).build();
                CompletableFuture<HttpResponse<Void>> response = client.sendAsync(request, head -> {
                    body.accept(head.statusCode());
                    return HttpResponse.BodySubscribers.fromSubscriber(body);
                });
                await(response, body, deadlines, progress);
                digest = body.finish();
            }
            if (!digest.equals(sha256)) {
                throw new IOException("SHA-256 is " + digest + ", should be " + sha256);
            }
            Files.move(partial, target, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(partial);
        }
    }

    private void await(CompletableFuture<?> response, DigestedFile body, Deadlines deadlines, Progress progress)
        throws IOException, InterruptedException {
        long startNs = System.nanoTime();
        long movedNs = startNs;
        long seen = 0;
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
                    movedNs = received > seen ? nowNs : movedNs;
                    seen = received;
                    requireWithin(deadlines.stall(), nowNs - movedNs, "no byte for", received);
                    requireWithin(deadlines.overall(), nowNs - startNs, "not finished within", received);
                }
            }
        } catch (ExecutionException e) {
            throw body.failure() != null ? body.failure() : new IOException(reason(e.getCause()), e);
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
            return e instanceof ConnectException ? name + ": " + e.getMessage() : e.getMessage();
        }
        return e.getCause() == null ? name : name + " (" + reason(e.getCause()) + ")";
    }
}
