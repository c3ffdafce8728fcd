package dev.starling.distributed.ps;

import dev.starling.errors.StarlingException;

/** A parameter server cannot start or continue. All updates that it acknowledged are safe in its directory. */
public final class ServerException extends StarlingException {
    private static final long serialVersionUID = 1L;

    ServerException(String message, Throwable cause) {
        super(message, cause);
    }
}
