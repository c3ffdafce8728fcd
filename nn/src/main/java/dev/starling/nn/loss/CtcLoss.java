package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * The mean of {@link Losses#ctcLoss}, with the softmax of logits {@code [N, T, C]} as probabilities. {@link Loss#ctc()}
 * creates it; each setting returns a copy.
 */
public final class CtcLoss implements Loss {
    private final long blank;
    private final boolean zeroInfinity;

    CtcLoss(long blank, boolean zeroInfinity) {
        this.blank = blank;
        this.zeroInfinity = zeroInfinity;
    }

    /** Returns the loss with another class as the blank; default 0. */
    public CtcLoss blank(long index) {
        return new CtcLoss(index, zeroInfinity);
    }

    /** Returns the loss that counts sequences that are too short for their labels as 0 instead of infinite. */
    public CtcLoss zeroInfinity() {
        return new CtcLoss(blank, true);
    }

    /** Computes the loss of sequences that all have T steps. */
    @Override
    public Tensor of(Tensor logits, Tensor target) {
        return of(logits, target, null);
    }

    /**
     * Computes the loss of sequences of unequal lengths.
     *
     * @param target {@code [N, S]}, integers; labels end at the first that is negative or the blank
     * @param lengths {@code [N]}, integers: the number of steps of each sequence
     */
    public Tensor of(Tensor logits, Tensor target, @Nullable Tensor lengths) {
        Tensor x = logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        return Losses.ctcLoss(x.logSoftmax(-1), target, lengths, blank, Losses.Reduce.MEAN, zeroInfinity);
    }

    @Override
    public boolean expectsLogits() {
        return true;
    }

    @Override
    public boolean widens() {
        return true;
    }

    @Override
    public String toString() {
        return "CtcLoss(blank=" + blank + (zeroInfinity ? " zeroInfinity" : "") + ")";
    }
}
