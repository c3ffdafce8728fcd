package dev.starling.distributed;

/**
 * Members joined or left, so the present epoch has ended. Collectives in progress have failed; start them again in the
 * new epoch, after {@link Group#reform}.
 */
public final class MembershipChangedException extends DistributedException {
    private static final long serialVersionUID = 1L;

    /** Creates an exception. */
    public MembershipChangedException(String message) {
        super(message);
    }
}
