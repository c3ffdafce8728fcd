package dev.starling.tensor;

import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Update;
import java.util.Arrays;
import java.util.List;

/** Reading and writing at indices. */
public sealed interface Indexing permits Tensor {
    private Tensor self() {
        return (Tensor) this;
    }

    /**
     * Reads by NumPy's rules. Positions, ranges, new axes and an ellipsis give a view. Integer arrays broadcast
     * together; a mask stands for the arrays of its true positions. The dimensions of the arrays replace those they
     * index or, where a range, new axis or ellipsis separates the arrays (a single position counts as an array here),
     * come first; the result is then a copy. Gradients flow back.
     *
     * @throws TensorException if an index is out of range, or there are more indices than dimensions
     */
    default Tensor get(Index... indices) {
        return new Subscript(self(), indices).get();
    }

    /**
     * Reads at indices in NumPy's notation, without arrays and masks: {@code x.get("1:3, ::-1, ..., None, -2")}; a
     * view.
     */
    default Tensor get(String indices) {
        return get(Index.parse(indices));
    }

    /** Returns a view at these positions of the first dimensions; negative positions count from the end. */
    default Tensor get(long... places) {
        Index[] indices = new Index[places.length];
        for (int i = 0; i < indices.length; i++) {
            indices[i] = Index.at(places[i]);
        }
        return get(indices);
    }

    /**
     * Writes {@code source}, converted and broadcast, where {@link #get(Index...)} would read. If a position is named
     * twice, the last value is kept. Works in place: no gradient flows, and values that a tape needs must not be
     * overwritten.
     *
     * @return this tensor
     */
    default Tensor set(Tensor source, Index... indices) {
        if (indices.length == 1 && indices[0] instanceof Index.Mask mask && source.count() == 1
                && mask.chosen().rank() <= self().rank()
                && mask.chosen().shape().equals(self().shape().slice(0, mask.chosen().rank()))) {
            Tensor chosen = mask.chosen();
            long[] dims = Arrays.copyOf(chosen.shape().dims(), self().rank());
            Arrays.fill(dims, chosen.rank(), dims.length, 1);
            Tensor value = source.reshape().to(self().dtype());
            Tensor.apply(new Update.Assign(), self(), chosen.reshape(dims).where(value, self()));
        } else {
            new Subscript(self(), indices).set(source);
        }
        return self();
    }

    /** Writes one value, in place, where {@link #get(Index...)} would read, and returns this tensor. */
    default Tensor set(double value, Index... indices) {
        return set(self().scalarLike(value), indices);
    }

    /** Returns, as one dimension, the elements where {@code mask} is true, after broadcasting both. */
    default Tensor maskedSelect(Tensor mask) {
        Shape shape = Shape.broadcast(self().shape(), mask.shape());
        if (shape == null) {
            throw new TensorException(TensorException.Problem.SHAPE, "maskedSelect",
                    List.of(self().spec(), mask.spec()), "shapes must broadcast", "reshape the mask");
        }
        return self().expand(shape).get(Index.mask(mask.expand(shape)));
    }

    /** Returns the indices of the elements that are not 0, in row-major order: i64 {@code [count, rank]}. */
    default Tensor nonzero() {
        long count = self().ne(0).sum().itemLong();
        return Tensor.compute(new Selection.Nonzero(count), self());
    }

    /** Returns the slices along {@code axis} at {@code index}, an integer tensor of any shape. */
    default Tensor take(int axis, Tensor index) {
        return Tensor.compute(new Selection.Take(self().shape().axis(axis)), self(), index);
    }

    /** Returns {@code y[.., i, ..] = x[.., index[.., i, ..], ..]}. */
    default Tensor gather(int axis, Tensor index) {
        return Tensor.compute(new Selection.Gather(self().shape().axis(axis)), self(), index);
    }

    /** Returns a copy with {@code source} added at {@code index}. */
    default Tensor scatterAdd(int axis, Tensor index, Tensor source) {
        return Tensor.compute(new Selection.ScatterAdd(self().shape().axis(axis)), self(), index, source);
    }

    /** Returns a copy with {@code source} written at {@code index}. */
    default Tensor scatter(int axis, Tensor index, Tensor source) {
        return Tensor.compute(new Selection.Scatter(self().shape().axis(axis)), self(), index, source);
    }

    /**
     * Returns a one-hot encoding of class indices of any shape, in this type: a new last dimension of {@code classes}.
     */
    default Tensor oneHot(long classes) {
        // Narrower types lack the larger classes: numbers would repeat.
        DType wide = self().dtype().isFloating() ? DType.F64 : DType.I64;
        Tensor range = Tensor.arange(new Spec(wide, Shape.of(classes), self().device()), 0, 1);
        return self().to(wide).unsqueeze(-1).eq(range).to(self().dtype());
    }
}
