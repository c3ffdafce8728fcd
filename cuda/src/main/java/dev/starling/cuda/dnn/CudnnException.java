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

/** An error of cuDNN, and the classification of its statuses. */
final class CudnnException extends GpuException {
    private static final long serialVersionUID = 1L;
    private static final int MAX_BYTES = 512;

    private final int status;

    CudnnException(int status, String what) {
        super("cuDNN, " + describe(what, status));
        this.status = status;
    }

    int status() {
        return status;
    }

    /** Describes a failure: what failed, the status by number and name, and the library's last message. */
    static String describe(String what, int status) {
        byte[] text = new byte[MAX_BYTES];
        cudnnGetLastErrorString(text, text.length);
        String detail = new String(text, StandardCharsets.UTF_8);
        detail = detail.substring(0, Math.max(0, detail.indexOf('\0'))).strip();
        return what + ": status " + status + ", " + cudnnGetErrorString(status).getString()
                + (detail.isEmpty() ? "" : " (" + detail + ")");
    }

    /** Returns whether the library ran out of memory. */
    static boolean isShortage(int status) {
        return status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED
                || status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }

    /** Returns whether component libraries are missing or of another version. */
    static boolean isIncomplete(int status) {
        return status == CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED || status == CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH;
    }

    /** Returns whether a later attempt may succeed after this status. */
    static boolean isTransient(int status) {
        return isIncomplete(status) || status >= CUDNN_STATUS_INTERNAL_ERROR
                && status != CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
    }

    /** Returns whether the library refused a request that it does not support, before starting it. */
    static boolean isRefusal(int status) {
        return status > CUDNN_STATUS_NOT_INITIALIZED && status < CUDNN_STATUS_INTERNAL_ERROR;
    }
}
