package dev.starling.tensor;

import dev.starling.tensor.op.Selection;

/** Reading and writing at indices. */
public sealed interface Indexing permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    /** Returns the slices along {@code axis} that {@code index}, an integer tensor of any shape, names. */
    default Tensor take(int axis, Tensor index) {
        return Tensor.compute(new Selection.Take(self().shape().axis(axis)), self(), index);
    }

    /** Returns {@code y[.., i, ..] = x[.., index[.., i, ..], ..]}. */
    default Tensor gather(int axis, Tensor index) {
        return Tensor.compute(new Selection.Gather(self().shape().axis(axis)), self(), index);
    }

    /** Returns a copy with {@code source} added where {@code index} says. */
    default Tensor scatterAdd(int axis, Tensor index, Tensor source) {
        return Tensor.compute(new Selection.ScatterAdd(self().shape().axis(axis)), self(), index, source);
    }

    /** Returns a copy with {@code source} written where {@code index} says. */
    default Tensor scatter(int axis, Tensor index, Tensor source) {
        return Tensor.compute(new Selection.Scatter(self().shape().axis(axis)), self(), index, source);
    }

    /**
     * Returns, for class indices of any shape, a last dimension of {@code classes} with 1 at the index, in this type.
     */
    default Tensor oneHot(long classes) {
        Tensor range = Creation.arange(new Spec(self().dtype(), Shape.of(classes), self().device()), 0, 1);
        return self().unsqueeze(-1).eq(range).to(self().dtype());
    }
}
