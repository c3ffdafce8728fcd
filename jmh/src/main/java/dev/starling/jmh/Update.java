package dev.starling.jmh;

/** The optimisers of the training steps to compare, with the same settings in each engine. */
public enum Update {
    /** Momentum {@value #MOMENTUM}. */
    SGD(0.01),
    /** Decay rates of {@value #BETA1} and {@value #BETA2}. */
    ADAM(1e-3),
    /** Adam with decoupled weight decay of {@value #DECAY}. */
    ADAMW(1e-3);

    /** Momentum of SGD. */
    public static final double MOMENTUM = 0.9;
    /** Decay rate of Adam's mean of gradients. */
    public static final double BETA1 = 0.9;
    /** Decay rate of Adam's mean of squares. */
    public static final double BETA2 = 0.999;
    /** Adam's summand that avoids division by 0. */
    public static final double EPSILON = 1e-8;
    /** Weight decay of AdamW. */
    public static final double DECAY = 0.01;

    private final double rate;

    Update(double rate) {
        this.rate = rate;
    }

    /** Returns the learning rate. */
    public double rate() {
        return rate;
    }
}
