package dev.starling.nn.loss;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Losses.Reduce;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.function.Predicate;
import java.util.function.UnaryOperator;

/**
 * The difference between a model's result and its target. See {@link Losses} for formulas and papers. The losses that
 * the methods of this interface create compute in f32 from a 16-bit result.
 */
@FunctionalInterface
public interface Loss {
    /** Returns a scalar: the mean over the batch. */
    Tensor of(Tensor result, Tensor target);

    /**
     * Returns the loss of each row, {@code [N]}: what {@link #of} returns for a batch of this row only. By default each
     * row is computed by itself.
     */
    default Tensor rows(Tensor result, Tensor target) {
        if (result.rank() == 0 || target.rank() == 0 || result.size(0) == 0 || result.size(0) != target.size(0)) {
            throw new TensorException(TensorException.Problem.SHAPE, "loss of rows", List.of(result.spec(),
                    target.spec()), "result and target must have the same number of rows, at least 1",
                    "make the first dimension that of the batch");
        }
        Tensor[] each = new Tensor[Math.toIntExact(result.size(0))];
        for (int i = 0; i < each.length; i++) {
            each[i] = of(result.narrow(0, i, 1), target.narrow(0, i, 1)).reshape();
        }
        return Tensor.stack(0, each);
    }

    /**
     * Returns a scalar: the mean of the rows' losses, each multiplied by its weight. It is divided by the number of
     * rows, not by the sum of weights, so that several batches of a step, or several ranks, give the same mean. The
     * losses of all rows must be finite: 0 times an infinite one is NaN.
     *
     * @param weights {@code [N]}, for example larger for rows that are rarer or more certain, and 0 for rows that do
     *     not count
     */
    default Tensor weighted(Tensor result, Tensor target, Tensor weights) {
        Tensor losses = rows(result, target);
        Elementwise.requireSame("weighted loss", losses, weights);
        return losses.mul(weights.to(losses.dtype())).mean();
    }

    /**
     * Returns by what {@link #of} divides the sum of the losses of a batch: how many targets count, or the sum of their
     * weights. An evaluation weighs the mean of each batch by it, so that the loss does not depend on how the data is
     * divided into batches. By default the number of rows, with which this holds for means of the rows' losses, and for
     * other means if all rows of the data have the same shape. A sum of losses is weighted as the first one is.
     */
    default double divisor(Tensor result, Tensor target) {
        return target.size(0);
    }

    /** Returns whether the loss itself computes in f32 from a 16-bit result, which then need not be converted first. */
    default boolean widens() {
        return false;
    }

    /**
     * Describes the loss, for processes that train together and compare their settings. The description of a function
     * is the class that contains it.
     */
    default String describe() {
        String name = getClass().getName();
        return getClass().isHidden() ? "a function of " + name.replaceFirst("\\$\\$Lambda.*", "") : toString()
                .startsWith(name + '@') ? name : toString();
    }

    /**
     * Returns whether the loss itself computes the softmax or sigmoid of a result, so that a model must not end in one.
     */
    default boolean expectsLogits() {
        return false;
    }

    /**
     * Returns whether targets must lie between 0 and 1, and the loss is not negative if they do. A trainer and an
     * evaluation then refuse a negative loss.
     */
    default boolean expectsProbabilities() {
        return false;
    }

    /**
     * Returns the dimension of the classes, which the logits have and the targets have not: dimension 1 for logits
     * {@code [N, C, *d]} and targets {@code [N, *d]}, the last one for logits {@code [N, *d, C]}.
     *
     * @throws dev.starling.tensor.TensorException if the targets are no integers, if no dimension fits, or if both fit
     */
    static int classAxis(Tensor logits, Tensor target) {
        return ClassAxis.of("classes", logits, target);
    }

    /**
     * Returns the loss of {@code softmax(logits)} and classes or probabilities. Class indices are integers; see
     * {@link #classAxis} for the shapes. Probabilities have the shape of the logits, {@code [N, C, *d]}.
     *
     * <p>A target that is no class is an error. PyTorch leaves out -100 by default; here padding is left out only by
     * {@link CrossEntropyLoss#ignoring}, because a wrong label would else go unnoticed.
     */
    static CrossEntropyLoss crossEntropy() {
        return crossEntropy(0);
    }

    /** As {@link #crossEntropy()}, with a share of the target distributed evenly over all classes. */
    static CrossEntropyLoss crossEntropy(double smoothing) {
        return crossEntropy(smoothing, Losses.NONE_IGNORED);
    }

    /** As {@link #crossEntropy(double)}, ignoring targets of one class, for example -100. */
    static CrossEntropyLoss crossEntropy(double smoothing, long ignored) {
        return new CrossEntropyLoss(smoothing, ignored, OptionalInt.empty(), null, 0);
    }

    /**
     * As {@link #crossEntropy()}, with the classes in the last dimension: logits {@code [*d, C]}, classes {@code [*d]}.
     */
    static CrossEntropyLoss crossEntropyOfLast() {
        return crossEntropy().classesIn(-1);
    }

    /**
     * Returns the loss of a student's logits against those of a teacher, both {@code [N, C, *d]}: the mean
     * Kullback-Leibler divergence of {@code softmax(student/t)} from {@code softmax(teacher/t)}, multiplied by
     * {@code t²} so that gradients do not shrink with the temperature. (Hinton et al., 2015)
     *
     * @param temperature t > 0; the higher, the more the small probabilities of the teacher count
     */
    static Loss distillation(double temperature) {
        if (!(temperature > 0 && temperature < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("distillation", "the temperature must be > 0 and finite, got "
                    + temperature, "2 to 4 is usual");
        }
        return new RowLoss("distillation at temperature " + temperature, true, (logits, teacher) -> {
            Elementwise.requireSame("distillation", logits, teacher);
            Tensor p = teacher.to(logits.dtype()).div(temperature).logSoftmax(1);
            Tensor q = logits.div(temperature).logSoftmax(1);
            return p.exp().mul(p.sub(q)).sum(1).mul(temperature * temperature);
        });
    }

    /** Returns the mean cross-entropy of {@code sigmoid(logits)} and probabilities of the same shape. */
    static BinaryCrossEntropyLoss binaryCrossEntropy() {
        return new BinaryCrossEntropyLoss(null, -1, 0);
    }

    /**
     * Returns the loss of connectionist temporal classification, for labels without their positions: logits
     * {@code [N, T, C]} and classes {@code [N, S]}, where class 0 is the blank and labels end at the first that is
     * negative or the blank. As PyTorch's mean, that of the sequences' losses, each divided by its number of labels.
     * (Graves et al., 2006)
     */
    static CtcLoss ctc() {
        return new CtcLoss(0, false);
    }

    /**
     * Returns one minus the Sørensen-Dice coefficient of {@code sigmoid(logits)} and probabilities of the same shape
     * {@code [N, ..]}: {@code 1 - (2Σpy + 1)/(Σp + Σy + 1)} for each example, and of these the mean. For segmentation.
     * (Milletari et al., 2016)
     */
    static Loss dice() {
        return new RowLoss("dice", true, (logits, target) -> {
            Elementwise.requireSame("dice", logits, target);
            Tensor p = logits.sigmoid().reshape(logits.size(0), -1);
            Tensor y = target.to(p.dtype()).reshape(logits.size(0), -1);
            Tensor overlap = p.mul(y).sum(1).mul(2).add(1);
            return overlap.div(p.sum(1).add(y.sum(1)).add(1)).neg().add(1);
        });
    }

    /** Returns the mean hinge loss {@code max(0, 1 - x·y)} of results and targets -1 or 1 of one shape. */
    static Loss hinge() {
        return new Elementwise("hinge", (x, y) -> x.mul(y).neg().add(1).relu());
    }

    /** Returns the mean of the square of the {@link #hinge} loss. */
    static Loss squaredHinge() {
        return new Elementwise("squaredHinge", (x, y) -> x.mul(y).neg().add(1).relu().square());
    }

    /** Returns the mean of {@code ln(1 + e^(-x·y))} of results and targets -1 or 1 of one shape. */
    static Loss softMargin() {
        return new Elementwise("softMargin", (x, y) -> x.mul(y).neg().softplus());
    }

    /**
     * Returns the mean negative log-likelihood of counts under Poisson distributions, whose logarithmic rates are the
     * results, without the term that depends on the target only: {@code eˣ - x·y}.
     */
    static Loss poisson() {
        return new Elementwise("poisson", (x, y) -> x.exp().sub(x.mul(y)));
    }

    /**
     * Returns the loss whose minimum is a quantile: {@code max(q·d, (q - 1)·d)} of differences {@code d = y - x}.
     *
     * @param q in (0, 1); 0.5 gives half the mean absolute error
     */
    static Loss quantile(double q) {
        if (!(q > 0 && q < 1)) {
            throw TensorException.argument("quantile", "0 < q < 1 must hold, got " + q, "0.9 is the 90 % quantile");
        }
        return new Elementwise("quantile " + q, (x, y) -> y.sub(x).mul(q).maximum(y.sub(x).mul(q - 1)));
    }

    /**
     * Returns the mean negative log-likelihood of targets {@code [..]} under normal distributions, whose mean and
     * logarithmic variance are the last dimension of the results {@code [.., 2]}, without the constant term:
     * {@code (s + (y - m)²/eˢ)/2}. (Nix and Weigend, 1994)
     */
    static Loss gaussian() {
        return new RowLoss("gaussian", false, (result, target) -> {
            if (result.rank() == 0 || result.size(-1) != 2) {
                throw new TensorException(TensorException.Problem.SHAPE, "gaussian", List.of(result.spec()),
                        "the result must be [.., 2]: mean and logarithmic variance", "give the last layer 2 outputs");
            }
            Tensor[] each = result.unstack(-1);
            Elementwise.requireSame("gaussian", each[0], target);
            Tensor square = target.to(result.dtype()).sub(each[0]).square();
            return square.mul(each[1].neg().exp()).add(each[1]).mul(0.5);
        });
    }

    /** Returns the mean of one minus the cosine between rows of results and targets {@code [.., D]}. */
    static Loss cosine() {
        return new RowLoss("cosine", false, (result, target) -> {
            Elementwise.requireSame("cosine", result, target);
            return PairLosses.cosine(result, target.to(result.dtype())).neg().add(1);
        });
    }

    /**
     * Returns the mean of {@code max(0, |a - p| - |a - n| + margin)} for results {@code [N, 3, D]}: a row, one of the
     * same kind and one of another kind. The target is not used. (Schroff et al., 2015)
     */
    static Loss triplet(double margin) {
        Elementwise.requireFinite("triplet", "margin", margin);
        return new RowLoss("triplet " + margin, false, (result, target) ->
                PairLosses.triplet(result, margin));
    }

    /**
     * Returns the mean of {@code y·d² + (1 - y)·max(0, margin - d)²}, where d is the distance of the two rows of a
     * result {@code [N, 2, D]} and the target {@code [N]} is 1 for rows of the same kind and otherwise 0. (Hadsell et
     * al., 2006)
     */
    static Loss contrastive(double margin) {
        Elementwise.requireFinite("contrastive", "margin", margin);
        return new RowLoss("contrastive " + margin, false, (result, target) ->
                PairLosses.contrastive(result, target, margin));
    }

    /**
     * Returns the mean of {@code 1 - c} for targets {@code [N]} of 1 and {@code max(0, c - margin)} for others, where c
     * is the cosine between the two rows of a result {@code [N, 2, D]}.
     */
    static Loss cosineEmbedding(double margin) {
        Elementwise.requireFinite("cosineEmbedding", "margin", margin);
        return new RowLoss("cosineEmbedding " + margin, false, (result, target) ->
                PairLosses.cosineEmbedding(result, target, margin));
    }

    /** Returns this loss, multiplied by a factor. */
    default Loss times(double factor) {
        Elementwise.requireFinite("loss", "factor", factor);
        return new SumOfLosses(List.of(this), new double[] {factor}, List.of());
    }

    /** Returns the sum of this loss and another one of the same result and target. */
    default Loss plus(Loss other) {
        return new SumOfLosses(List.of(this, other), new double[] {1, 1}, List.of());
    }

    /**
     * Returns this loss plus {@code strength} times the sum of the absolute values of some weights, which makes many of
     * them 0.
     *
     * @param paths selects weights of the model by path
     */
    default Loss plusL1(Module model, Predicate<String> paths, double strength) {
        return plusPenalty("L1", model, paths, strength, Tensor::abs);
    }

    /** Returns this loss plus {@code strength} times the sum of the squares of some weights; see {@link #plusL1}. */
    default Loss plusL2(Module model, Predicate<String> paths, double strength) {
        return plusPenalty("L2", model, paths, strength, Tensor::square);
    }

    private Loss plusPenalty(String name, Module model, Predicate<String> paths, double strength,
            UnaryOperator<Tensor> of) {
        Elementwise.requireFinite("penalty", "strength", strength);
        List<Parameter> chosen = model.parameters().entrySet().stream().filter(e -> paths.test(e.getKey()))
                .map(Map.Entry::getValue).toList();
        if (chosen.isEmpty()) {
            throw TensorException.argument("penalty", "no weight of the model has such a path",
                    "select some of " + model.parameters().keySet());
        }
        return new SumOfLosses(List.of(this), new double[] {1},
                List.of(new SumOfLosses.Penalty(name, chosen, strength, of)));
    }

    /** Returns the mean squared error of results and targets of one shape. */
    static Loss meanSquared() {
        return new Elementwise("mean squared error", (x, target) -> Losses.mseLoss(x, target, Reduce.NONE));
    }

    /** Returns the mean absolute error of results and targets of one shape. Its slope at 0 is 0. */
    static Loss meanAbsolute() {
        return new Elementwise("mean absolute error", (x, target) -> Losses.l1Loss(x, target, Reduce.NONE));
    }

    /**
     * Returns the mean Huber loss of results and targets of one shape: {@code d²/2} for differences
     * {@code |d| <= delta}, {@code delta·(|d| - delta/2)} beyond.
     */
    static Loss huber(double delta) {
        return new Elementwise("Huber loss with delta " + delta, (x, target) ->
                Losses.huberLoss(x, target, Reduce.NONE, delta));
    }
}
