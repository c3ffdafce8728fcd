package dev.starling.distributed.ps;

/** A parameter server cannot begin or go on. What it acknowledged is safe in its directory. */
public final class ServerException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    ServerException(String message, Throwable cause) {
        super(message, cause);
    }
}
