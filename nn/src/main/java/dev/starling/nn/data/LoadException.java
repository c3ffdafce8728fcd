package dev.starling.nn.data;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/**
 * A batch could not be prepared: an example cannot be read, workers did not deliver in time, or the loader is closed.
 */
public final class LoadException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private static final String MEMORY = "raise -Xmx or, if direct memory is short, which holds the batches, "
            + "-XX:MaxDirectMemorySize, or use smaller batches or a smaller prefetch";

    private final int index;

    LoadException(String message, int index, @Nullable Throwable cause) {
        super(message, cause);
        this.index = index;
    }

    static LoadException ofExample(int index, int size, int epoch, Throwable cause) {
        String remedy = switch (cause) {
            case IndexOutOfBoundsException _ -> "this index is one of the data set's, whose size() is " + size
                    + ": the error is in Dataset.write, for example in its size or in an array of another length";
            case OutOfMemoryError _ -> MEMORY;
            case StackOverflowError _ -> "make the recursion in Dataset.write less deep, or raise -Xss";
            case LinkageError _ -> "check that Dataset.write finds its classes and native libraries, in the versions "
                    + "that it was compiled against";
            case InterruptedException _ -> "the thread was interrupted while it read the example";
            default -> "repair the example or remove it from the data set";
        };
        return new LoadException("Dataset.write failed for example " + index + " in epoch " + (epoch + 1) + ": " + cause
                + "; " + remedy, index, cause);
    }

    static LoadException ofBatch(int batch, int epoch, String step, Throwable cause) {
        return new LoadException("batch " + (batch + 1) + " of epoch " + (epoch + 1) + " cannot be " + step + ": "
                + cause + (cause instanceof OutOfMemoryError ? "; " + MEMORY : ""), -1, cause);
    }

    static LoadException ofClosed(@Nullable Throwable cause) {
        return new LoadException("the loader is closed; build a new one", -1, cause);
    }

    /** Returns the index of the example that cannot be read, or -1. */
    public int index() {
        return index;
    }
}
