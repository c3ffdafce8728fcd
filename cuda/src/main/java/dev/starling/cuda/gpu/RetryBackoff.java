package dev.starling.cuda.gpu;

/** Decides when to retry something that failed: immediately, then after ever more calls. */
public final class RetryBackoff {
    private static final int MAX_PAUSE = 1 << 20;

    /** Calls to skip before the next attempt. */
    private int remaining;
    private int pause;

    /** Returns whether this call may make an attempt; if not, counts the call. */
    public boolean isDue() {
        if (remaining == 0) {
            return true;
        }
        remaining--;
        return false;
    }

    /** Records that the attempt failed. */
    public void onFailure() {
        remaining = pause;
        pause = Math.min(2 * pause + 1, MAX_PAUSE);
    }
}
