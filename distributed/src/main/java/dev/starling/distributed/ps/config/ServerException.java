package dev.starling.distributed.ps.config;

import dev.starling.distributed.DistributedException;

/** A parameter server cannot start or continue. All updates that it acknowledged are safe in its directory. */
public final class ServerException extends DistributedException {
    private static final long serialVersionUID = 1L;

    /** Creates an exception; {@code cause} may be {@code null}. */
    public ServerException(String message, Throwable cause) {
        super(message, cause);
    }
}
