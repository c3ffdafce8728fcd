package dev.starling.distributed;

/** Others joined or left: what was under way is void, and goes on in the new epoch after {@link Group#reform}. */
public final class MembershipChangedException extends DistributedException {
    private static final long serialVersionUID = 1L;

    /** Makes an exception. */
    public MembershipChangedException(String message) {
        super(message);
    }
}
