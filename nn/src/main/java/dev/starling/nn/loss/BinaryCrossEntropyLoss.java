package dev.starling.nn.loss;

import dev.starling.tensor.Losses;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The mean of {@link Losses#binaryCrossEntropyWithLogits}. {@link Loss#binaryCrossEntropy()} creates it; each setting
 * returns a copy.
 */
public final class BinaryCrossEntropyLoss implements Loss {
    private static final double SMALLEST_BASE = 1e-12;

    /** {@code null} if positive targets weigh as much as negative ones. */
    private final @Nullable Weights positive;
    /** The share of positive targets in the focal loss, or a negative number for none. */
    private final double alpha;
    /** The exponent of 1 - p in the focal loss; 0 for none. */
    private final double focus;

    BinaryCrossEntropyLoss(@Nullable Weights positive, double alpha, double focus) {
        this.positive = positive;
        this.alpha = alpha;
        this.focus = focus;
    }

    /**
     * Returns the loss with weights of positive targets: one for all, or one for each element of the last dimension.
     * More than 1 for rare positives.
     */
    public BinaryCrossEntropyLoss positiveWeight(double... weights) {
        return new BinaryCrossEntropyLoss(new Weights("binaryCrossEntropy", weights), alpha, focus);
    }

    /**
     * Returns the focal loss {@code -α(1 - p)^γ·ln p} of targets of probability p, with {@code 1 - α} in place of α for
     * negative targets. (Lin et al., 2017)
     *
     * @param share α in [0, 1], usually 0.25; a negative number leaves this factor out
     * @param gamma γ, at least 0, usually 2
     */
    public BinaryCrossEntropyLoss focal(double share, double gamma) {
        if (!(share <= 1 && gamma >= 0 && gamma < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("binaryCrossEntropy", "share <= 1 and gamma >= 0 must hold, got " + share
                    + " and " + gamma, "0.25 and 2 are usual");
        }
        return new BinaryCrossEntropyLoss(positive, share, gamma);
    }

    @Override
    public Tensor of(Tensor logits, Tensor target) {
        return elements(logits, target).mean();
    }

    @Override
    public Tensor rows(Tensor logits, Tensor target) {
        return RowLoss.means(elements(logits, target));
    }

    @Override
    public double divisor(Tensor logits, Tensor target) {
        return target.count();
    }

    private Tensor elements(Tensor result, Tensor target) {
        Tensor logits = Elementwise.wide(result);
        if (positive == null && focus == 0 && alpha < 0) {
            return Losses.binaryCrossEntropyWithLogits(logits, target, Losses.Reduce.NONE);
        }
        Elementwise.requireSame("binaryCrossEntropy", logits, target);
        Tensor y = target.to(logits.dtype());
        Tensor no = y.neg().add(1);
        // -ln σ(x) and -ln(1 - σ(x)), without overflow.
        Tensor yes = logits.neg().softplus().mul(y);
        if (positive != null) {
            if (positive.count() > 1 && positive.count() != logits.size(-1)) {
                throw new TensorException(TensorException.Problem.SHAPE, "binaryCrossEntropy", List.of(logits.spec()),
                        "there are " + positive.count() + " positive weights for a last dimension of "
                        + logits.size(-1), "pass one weight, or one for each element of the last dimension");
            }
            yes = yes.mul(positive.on(logits));
        }
        Tensor losses = yes.add(logits.softplus().mul(no));
        if (focus > 0) {
            Tensor p = logits.sigmoid();
            Tensor missed = p.mul(no).add(p.neg().add(1).mul(y));
            losses = focused(losses, missed, focus);
        }
        if (alpha >= 0) {
            losses = losses.mul(y.mul(alpha).add(no.mul(1 - alpha)));
        }
        return losses;
    }

    /** Multiplies losses by a power of {@code missed}, one minus the probability of the target. */
    static Tensor focused(Tensor losses, Tensor missed, double gamma) {
        // The slope of a root is infinite at 0.
        Tensor base = gamma < 1 ? missed.clamp(SMALLEST_BASE, Double.POSITIVE_INFINITY) : missed;
        return losses.mul(base.pow(gamma));
    }

    @Override
    public boolean expectsLogits() {
        return true;
    }

    @Override
    public boolean expectsProbabilities() {
        return true;
    }

    @Override
    public String toString() {
        return "BinaryCrossEntropyLoss(" + (positive == null ? "" : "positiveWeight=" + positive + " ")
                + (alpha < 0 ? "" : "share=" + alpha + " ") + (focus > 0 ? "focal=" + focus : "") + ")";
    }
}
