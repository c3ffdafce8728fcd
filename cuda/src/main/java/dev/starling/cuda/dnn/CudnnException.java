package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_NOT_INITIALIZED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;
import static org.bytedeco.cuda.global.cudnn.cudnnGetErrorString;
import static org.bytedeco.cuda.global.cudnn.cudnnGetLastErrorString;

import dev.starling.cuda.gpu.GpuException;
import java.nio.charset.StandardCharsets;

/** What cuDNN reported, and what its statuses mean to us. */
final class CudnnException extends GpuException {
    private static final long serialVersionUID = 1L;
    private static final int MAX_BYTES = 512;

    private final int status;

    CudnnException(int status, String what) {
        super("cuDNN, " + words(what, status));
        this.status = status;
    }

    int status() {
        return status;
    }

    /** Says what failed, with the status by number and name, and what the library told of it last. */
    static String words(String what, int status) {
        byte[] text = new byte[MAX_BYTES];
        cudnnGetLastErrorString(text, text.length);
        String told = new String(text, StandardCharsets.UTF_8);
        told = told.substring(0, Math.max(0, told.indexOf('\0'))).strip();
        return what + ": status " + status + ", " + cudnnGetErrorString(status).getString()
                + (told.isEmpty() ? "" : " (" + told + ")");
    }

    /** Tells whether there was no memory. */
    static boolean isShortage(int status) {
        return status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                || status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }

    /** Tells whether parts of the library are missing, or are of another version. */
    static boolean isIncomplete(int status) {
        return status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED || status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;
    }

    /** Tells whether the same question may be answered otherwise at another time. */
    static boolean mayPass(int status) {
        return isIncomplete(status) || status >= CUDNN_STATUS_INTERNAL_ERROR
                && status != CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
    }

    /** Tells whether the library did not begin what it was asked for, since it does not offer it. */
    static boolean isRefusal(int status) {
        return status > CUDNN_STATUS_NOT_INITIALIZED && status < CUDNN_STATUS_INTERNAL_ERROR;
    }
}
