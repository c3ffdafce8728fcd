package dev.starling.tensor.cpu.onednn;

import dev.starling.errors.StarlingException;

/** An error of a oneDNN call. The message states the call and its status. */
public final class OneDnnException extends StarlingException {
    private static final long serialVersionUID = 1L;
    private static final String[] STATUS = {"success", "out of memory", "invalid arguments", "unimplemented",
        "last implementation reached", "runtime error", "not required", "invalid graph", "invalid graph operation",
        "invalid shape", "invalid data type"};

    private final int status;

    OneDnnException(String what, int status) {
        super("oneDNN: " + what + ": " + (status < STATUS.length ? STATUS[status] : "status " + status));
        this.status = status;
    }

    /** Returns the value of {@code dnnl_status_t}; 3 means that oneDNN has no kernel for the request. */
    public int status() {
        return status;
    }
}
