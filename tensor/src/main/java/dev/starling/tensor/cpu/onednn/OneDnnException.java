package dev.starling.tensor.cpu.onednn;

import dev.starling.errors.StarlingException;

/** An error of a oneDNN call. The message states the call and its status. */
public final class OneDnnException extends StarlingException {
    private static final long serialVersionUID = 1L;
    private static final String[] STATUS = {"success", "out of memory", "invalid arguments", "unimplemented",
        "last implementation reached", "runtime error", "not required", "invalid graph", "invalid graph operation",
        "invalid shape", "invalid data type"};
    private static final int OUT_OF_MEMORY = 1;
    private static final int RUNTIME_ERROR = 5;

    private final int status;

    OneDnnException(String what, int status) {
        super("oneDNN: " + what + ": " + (status < STATUS.length ? STATUS[status] : "status " + status)
            + remedy(status));
        this.status = status;
    }

    /** oneDNN generates code for each primitive. */
    private static String remedy(int status) {
        return isShortage(status) ? "; free memory or, if the system refuses this process executable memory, permit it "
            + "(execmem of SELinux, MemoryDenyWriteExecute of systemd, mprotect in a seccomp filter)" : "";
    }

    /** Returns whether the system may have refused memory. */
    static boolean isShortage(int status) {
        return status == OUT_OF_MEMORY || status == RUNTIME_ERROR;
    }

    /** Returns the value of {@code dnnl_status_t}; 3 means that oneDNN has no kernel for the request. */
    public int status() {
        return status;
    }
}
