package dev.starling.distributed.ps.config;

import dev.starling.distributed.DistributedException;
import org.jspecify.annotations.Nullable;

/** A parameter server cannot start or continue. All updates that it acknowledged are safe in its directory. */
public final class ServerException extends DistributedException {
    private static final long serialVersionUID = 1L;

    /** Creates an exception with its cause, or {@code null} if there is none. */
    public ServerException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
