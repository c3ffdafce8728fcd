package dev.starling.cuda.gpu;

/** What the GPU, its driver or its compiler reported. The backend turns it into an exception that names the op. */
public final class GpuException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final String remedy;

    /** Makes an exception of a call's name and what came of it. */
    public GpuException(String message) {
        this(message, null);
    }

    /** Makes an exception with what to do about it. */
    public GpuException(String message, String remedy) {
        super(message);
        this.remedy = remedy;
    }

    /** Returns what to do about it, or {@code null}. */
    public String remedy() {
        return remedy;
    }
}
