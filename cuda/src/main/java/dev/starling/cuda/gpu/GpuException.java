package dev.starling.cuda.gpu;

import dev.starling.errors.StarlingException;
import org.jspecify.annotations.Nullable;

/** An error of the GPU, its driver or its compiler. The backend turns it into an exception that names the operation. */
public class GpuException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final @Nullable String remedy;
    private final boolean exhausted;

    /** Makes an exception with a message: the failed call and its error. */
    public GpuException(String message) {
        this(message, null);
    }

    /** Makes an exception with a message and a remedy. */
    public GpuException(String message, @Nullable String remedy) {
        this(message, remedy, false);
    }

    private GpuException(String message, @Nullable String remedy, boolean exhausted) {
        super(message);
        this.remedy = remedy;
        this.exhausted = exhausted;
    }

    /** Makes an exception for a call that ran out of memory even after {@link Gpu#trim}. */
    public static GpuException exhausted(String message) {
        return new GpuException(message, null, true);
    }

    /** Returns what the user can do about it, or {@code null}. */
    public @Nullable String remedy() {
        return remedy;
    }

    /** Returns whether the call ran out of memory. */
    public boolean isExhausted() {
        return exhausted;
    }
}
