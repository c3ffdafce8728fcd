package dev.starling.nn.data;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/**
 * A batch could not be prepared: an example cannot be read, workers did not deliver in time, or the loader is closed.
 */
public final class LoadException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final int index;

    LoadException(String message, int index, @Nullable Throwable cause) {
        super(message, cause);
        this.index = index;
    }

    static LoadException ofExample(int index, int epoch, Throwable cause) {
        return new LoadException("example " + index + " in epoch " + epoch + " cannot be read: " + cause
                + "; repair the example or remove it from the data set", index, cause);
    }

    static LoadException ofUpload(int batch, int epoch, Throwable cause) {
        return new LoadException("batch " + batch + " of epoch " + epoch + " cannot be uploaded: " + cause, -1, cause);
    }

    static LoadException ofClosed(@Nullable Throwable cause) {
        return new LoadException("the loader is closed; build a new one", -1, cause);
    }

    /** Returns the index of the example that cannot be read, or -1. */
    public int index() {
        return index;
    }
}
