package dev.starling.cuda.gpu;

import dev.starling.errors.StarlingException;

/** What the GPU, its driver or its compiler reported. The backend turns it into an exception that names the op. */
public class GpuException extends StarlingException {
    private static final long serialVersionUID = 1L;

    private final String remedy;
    private final boolean exhausted;

    /** Makes an exception of a call's name and what came of it. */
    public GpuException(String message) {
        this(message, null);
    }

    /** Makes an exception with what to do about it. */
    public GpuException(String message, String remedy) {
        this(message, remedy, false);
    }

    private GpuException(String message, String remedy, boolean exhausted) {
        super(message);
        this.remedy = remedy;
        this.exhausted = exhausted;
    }

    /** Makes an exception of a call that found no memory, also after {@link Gpu#trim}. */
    public static GpuException exhausted(String message) {
        return new GpuException(message, null, true);
    }

    /** Returns what to do about it, or {@code null}. */
    public String remedy() {
        return remedy;
    }

    /** Returns whether there was no memory. */
    public boolean isExhausted() {
        return exhausted;
    }
}
