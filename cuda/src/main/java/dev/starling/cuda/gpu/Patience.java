package dev.starling.cuda.gpu;

/** Tells when something that failed is to be tried again: at once, then after ever more calls. */
public final class Patience {
    private static final int MOST = 1 << 20;

    private int left;
    private int pause;

    /** Returns whether to try at this call; if not, the call is counted. */
    public boolean isOver() {
        if (left == 0) {
            return true;
        }
        left--;
        return false;
    }

    /** Notes that it failed. */
    public void failed() {
        left = pause;
        pause = Math.min(2 * pause + 1, MOST);
    }
}
