package dev.starling.nn.data;

import dev.starling.nn.checkpoint.Sha256;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;
import java.util.concurrent.Flow;
import org.jspecify.annotations.Nullable;

/**
 * Writes the body of a response to a file and computes its digest. Signals arrive one at a time on the HTTP client's
 * threads. Any thread may read {@link #received} and {@link #failure}; the thread that waits for the response calls the
 * other methods.
 */
final class DigestedFile implements Flow.Subscriber<List<ByteBuffer>>, AutoCloseable {
    private final FileChannel file;
    private final Sha256 digest = new Sha256();
    private final long lengthBytes;
    /** Set by {@link #onSubscribe}, the first signal. */
    @SuppressWarnings("NullAway.Init")
    private Flow.Subscription subscription;
    private volatile long received;
    private volatile @Nullable IOException failure;

    DigestedFile(Path path, long lengthBytes) throws IOException {
        this.lengthBytes = lengthBytes;
        this.file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    }

    /** Checks the response's status: only the body of a response with status 200 is the file. */
    void checkStatus(int status) {
        if (status != 200) {
            failure = new IOException("HTTP status " + status);
        }
    }

    long received() {
        return received;
    }

    /** Returns the first failure of the body, or null. */
    @Nullable IOException failure() {
        return failure;
    }

    /** Returns the digest of a body of the right length, or throws the failure. */
    String finish() throws IOException {
        if (failure != null) {
            throw failure;
        }
        if (received != lengthBytes) {
            throw new IOException("the body ends after " + received + " of " + lengthBytes + " bytes");
        }
        file.force(false);
        return digest.finish();
    }

    @Override
    public void onSubscribe(Flow.Subscription newSubscription) {
        subscription = newSubscription;
        subscription.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
        try {
            for (ByteBuffer buffer : buffers) {
                write(buffer);
            }
        } catch (IOException e) {
            failure = failure == null ? e : failure;
            subscription.cancel();
            throw new UncheckedIOException(e);
        }
    }

    private void write(ByteBuffer buffer) throws IOException {
        if (failure != null) {
            throw failure;
        }
        int length = buffer.remaining();
        if (received + length > lengthBytes) {
            throw new IOException("the body is longer than " + lengthBytes + " bytes");
        }
        digest.add(buffer);
        while (buffer.hasRemaining()) {
            file.write(buffer);
        }
        received += length;
    }

    @Override
    public void onError(Throwable throwable) {
        failure = failure == null ? new IOException(throwable.getMessage(), throwable) : failure;
    }

    @Override
    public void onComplete() {
        // finish() checks what arrived.
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
