package dev.starling.nn.loss;

import dev.starling.tensor.DType;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/**
 * The mean of {@link Losses#crossEntropy}. {@link Loss#crossEntropy()} creates it; each setting returns a copy.
 */
public final class CrossEntropyLoss implements Loss {
    private final double smoothing;
    private final long ignored;
    /** The dimension of the classes; empty if it follows from the shapes. */
    private final OptionalInt axis;
    /** {@code null} if all classes weigh the same. */
    private final @Nullable Weights weights;
    /** The exponent of 1 - p in the focal loss; 0 for none. */
    private final double focus;

    CrossEntropyLoss(double smoothing, long ignored, OptionalInt axis, @Nullable Weights weights, double focus) {
        if (!(smoothing >= 0 && smoothing <= 1)) {
            throw TensorException.argument("crossEntropy", "0 <= smoothing <= 1 must hold, got " + smoothing,
                    "change the smoothing");
        }
        this.smoothing = smoothing;
        this.ignored = ignored;
        this.axis = axis;
        this.weights = weights;
        this.focus = focus;
    }

    /** Returns the loss with a share of the target distributed evenly over all classes. */
    public CrossEntropyLoss smoothing(double share) {
        return new CrossEntropyLoss(share, ignored, axis, weights, focus);
    }

    /** Returns the loss without the targets of one class, for example -100; 0 if no target is left. */
    public CrossEntropyLoss ignoring(long target) {
        return new CrossEntropyLoss(smoothing, target, axis, weights, focus);
    }

    /** Returns the loss with classes in a given dimension; negative counts from the end. */
    public CrossEntropyLoss classesIn(int dimension) {
        return new CrossEntropyLoss(smoothing, ignored, OptionalInt.of(dimension), weights, focus);
    }

    /**
     * Returns the loss with a weight for each class, for example larger ones for rare classes. The mean is weighted:
     * the sum of weighted losses divided by the sum of the targets' weights. It is therefore no mean over rows: several
     * batches of a step, or several ranks, each divide by the weights of their own rows. Targets must be class indices.
     * In {@link #rows} and {@link Loss#weighted} each row is such a mean by itself: if it has one target, its class
     * weight cancels out, unless that is 0, and belongs into the weights of the rows.
     */
    public CrossEntropyLoss weights(double... ofClasses) {
        return new CrossEntropyLoss(smoothing, ignored, axis, new Weights("crossEntropy", ofClasses), focus);
    }

    /**
     * Returns the focal loss: each loss is multiplied by {@code (1 - p)} to the power of {@code gamma}, where p is the
     * probability of the target, so that examples count less the better they are classified. Targets must be class
     * indices. (Lin et al., 2017)
     */
    public CrossEntropyLoss focal(double gamma) {
        if (!(gamma >= 0 && gamma < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("crossEntropy", "gamma must be at least 0 and finite, got " + gamma,
                    "2 is usual");
        }
        return new CrossEntropyLoss(smoothing, ignored, axis, weights, gamma);
    }

    @Override
    public Tensor of(Tensor logits, Tensor target) {
        boolean shares = areShares(logits, target);
        boolean composed = weights != null || focus > 0;
        // With probabilities as targets, the operation computes in the type of the logits, so 16 bits are widened here.
        Tensor x = (shares || composed) && logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        int classes = classAxis(logits, target, shares);
        if (composed) {
            Tensor[] each = positions(rows(x, classes), target.reshape(-1));
            Tensor scale = each[1].sum();
            return each[0].sum().div(scale.maskedFill(scale.eq(0), 1));
        }
        Tensor[] in = classes == 1 ? new Tensor[] {x, target} : new Tensor[] {rows(x, classes),
                shares ? rows(target, classes) : target.reshape(-1)};
        if (shares || ignored == Losses.NONE_IGNORED) {
            return Losses.crossEntropy(in[0], in[1], Losses.Reduce.MEAN, smoothing, ignored);
        }
        Tensor sum = Losses.crossEntropy(in[0], in[1], Losses.Reduce.SUM, smoothing, ignored);
        return sum.div(target.ne(ignored).sum().to(sum.dtype()).clamp(1, Double.POSITIVE_INFINITY));
    }

    @Override
    public double divisor(Tensor logits, Tensor target) {
        if (areShares(logits, target)) {
            return target.count() / (double) logits.size(classAxis(logits, target, true));
        }
        if (weights == null) {
            return ignored == Losses.NONE_IGNORED ? target.count() : target.ne(ignored).sum().item();
        }
        Tensor flat = target.reshape(-1);
        Tensor left = flat.eq(ignored);
        return scales(weights, Elementwise.wide(logits), flat, left).maskedFill(left, 0).sum().item();
    }

    /** Returns the weight of each target; that of class 0 where the target is left out. */
    private static Tensor scales(Weights weights, Tensor like, Tensor target, Tensor left) {
        return weights.on(like).take(0, target.maskedFill(left, 0));
    }

    /** {@inheritDoc} The loss of a row whose targets are all ignored is 0. */
    @Override
    public Tensor rows(Tensor logits, Tensor target) {
        boolean shares = areShares(logits, target);
        boolean composed = !shares && (weights != null || focus > 0 || ignored != Losses.NONE_IGNORED);
        Tensor x = (shares || composed) && logits.dtype().bytes() == 2 ? logits.to(DType.F32) : logits;
        int classes = classAxis(logits, target, shares);
        if (composed) {
            Tensor[] each = positions(rows(x, classes), target.reshape(-1));
            Tensor scale = each[1].reshape(target.size(0), -1).sum(1);
            Tensor none = scale.eq(0);
            return each[0].reshape(target.size(0), -1).sum(1).div(scale.maskedFill(none, 1));
        }
        return RowLoss.means(Losses.crossEntropy(x.movedim(classes, 1), shares ? target.movedim(classes, 1) : target,
                Losses.Reduce.NONE, smoothing, ignored));
    }

    /** Returns whether targets are probabilities, which class weights and focal loss do not accept. */
    private boolean areShares(Tensor logits, Tensor target) {
        boolean shares = target.dtype().isFloating() && target.shape().equals(logits.shape());
        if (shares && (weights != null || focus > 0)) {
            throw new TensorException(TensorException.Problem.DTYPE, "crossEntropy", List.of(logits.spec(),
                    target.spec()), "weights and focal loss need class indices as targets", "use target.argmax(1)");
        }
        return shares;
    }

    /** Returns the dimension of the classes; class indices must have the other dimensions of the logits. */
    private int classAxis(Tensor logits, Tensor target, boolean shares) {
        if (axis.isEmpty()) {
            return shares ? 1 : Loss.classAxis(logits, target);
        }
        int classes = logits.shape().axis(axis.getAsInt());
        Shape expected = logits.shape().without(classes);
        if (!shares && !expected.equals(target.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "crossEntropy", List.of(logits.spec(),
                    target.spec()), "with the classes in dimension " + classes + ", the targets must be " + expected,
                    "reshape the targets, for example with squeeze(-1), or name another dimension in classesIn(..)");
        }
        return classes;
    }

    /** Returns the elements as {@code [N, C]}. */
    private static Tensor rows(Tensor x, int classes) {
        return x.movedim(classes, -1).reshape(-1, x.size(classes));
    }

    /**
     * Returns losses and weights, {@code [N]}, for logits {@code [N, C]} and classes {@code [N]}. Both are 0 where the
     * target is ignored.
     */
    private Tensor[] positions(Tensor x, Tensor target) {
        if (weights != null && weights.count() != x.size(1)) {
            throw new TensorException(TensorException.Problem.SHAPE, "crossEntropy", List.of(x.spec()), "there are "
                    + weights.count() + " weights for " + x.size(1) + " classes", "pass one weight for each class");
        }
        Tensor left = target.eq(ignored);
        // Refuses targets that are no class.
        Tensor losses = Losses.crossEntropy(x, target, Losses.Reduce.NONE, 0, ignored);
        Tensor scale = weights == null ? losses.onesLike() : scales(weights, x, target, left);
        if (focus > 0) {
            losses = BinaryCrossEntropyLoss.focused(losses, losses.neg().exp().neg().add(1), focus);
        }
        losses = losses.mul(scale);
        if (smoothing > 0) {
            Tensor log = x.logSoftmax(1);
            Tensor all = weights == null ? log : log.mul(weights.on(x));
            losses = losses.mul(1 - smoothing).sub(all.sum(1).mul(smoothing / x.size(1)));
        }
        return new Tensor[] {losses.maskedFill(left, 0), scale.maskedFill(left, 0)};
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
        return "CrossEntropyLoss(" + (smoothing > 0 ? "smoothing=" + smoothing + " " : "")
                + (ignored == Losses.NONE_IGNORED ? "" : "ignoring=" + ignored + " ")
                + (axis.isPresent() ? "classesIn=" + axis.getAsInt() + " " : "")
                + (weights == null ? "" : "weights=" + weights + " ") + (focus > 0 ? "focal=" + focus : "") + ")";
    }
}
