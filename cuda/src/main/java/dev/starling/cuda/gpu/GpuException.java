package dev.starling.cuda.gpu;

/** What the GPU, its driver or its compiler reported. The backend turns it into an exception that names the op. */
public final class GpuException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception of a call's name and what came of it. */
    public GpuException(String message) {
        super(message);
    }
}
