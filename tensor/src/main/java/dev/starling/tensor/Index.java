package dev.starling.tensor;

import java.util.ArrayList;
import java.util.List;

/**
 * Selects positions along a dimension, like an entry between NumPy's brackets. Several indices combine by NumPy's
 * rules; see {@link Indexing#get(Index...)}.
 */
public sealed interface Index {
    /** Marks an open end of a {@link Range}. */
    long OPEN = Long.MIN_VALUE;

    /**
     * A single position; the dimension is removed.
     *
     * @param place counted from 0, or from the end if negative
     */
    record At(long place) implements Index { }

    /**
     * Positions at a constant distance. Negative ends count from the end of the dimension; ends are clipped to the
     * dimension.
     *
     * @param start the first position, or {@link #OPEN}
     * @param stop the position before which the range ends, or {@link #OPEN}
     * @param step distance between positions, not 0; a negative step runs backwards
     */
    record Range(long start, long stop, long step) implements Index {
        /** Checks the step. */
        public Range {
            if (step == 0) {
                throw TensorException.argument("index", "the step of a range must not be 0", "use 1 or -1");
            }
        }

        /** Returns the first position within a dimension of {@code size}. */
        long first(long size) {
            long min = step > 0 ? 0 : -1;
            long max = step > 0 ? size : size - 1;
            return start == OPEN ? (step > 0 ? min : max) : clip(start, size, min, max);
        }

        /** Returns the number of positions within a dimension of {@code size}. */
        long count(long size) {
            long min = step > 0 ? 0 : -1;
            long max = step > 0 ? size : size - 1;
            long end = stop == OPEN ? (step > 0 ? max : min) : clip(stop, size, min, max);
            long first = first(size);
            long span = step > 0 ? end - first : first - end;
            return span <= 0 ? 0 : (span - 1) / Math.abs(step) + 1;
        }

        private static long clip(long place, long size, long min, long max) {
            return Math.clamp(place < 0 ? place + size : place, min, max);
        }
    }

    /** A new dimension of size 1. */
    record NewAxis() implements Index { }

    /** As many whole dimensions as the other indices leave over. */
    record Ellipsis() implements Index { }

    /**
     * Positions given by an integer tensor of any shape.
     *
     * @param places i64 or i32; negative ones count from the end
     */
    record Of(Tensor places) implements Index { }

    /**
     * The positions where a bool tensor is true. A mask of rank r indexes r dimensions.
     *
     * @param chosen bool, with the sizes of those dimensions
     */
    record Mask(Tensor chosen) implements Index { }

    /** Returns a single position; negative counts from the end. The dimension is removed. */
    static Index at(long place) {
        return new At(place);
    }

    /** Returns the positions from {@code start} up to but not including {@code stop}. */
    static Index range(long start, long stop) {
        return new Range(start, stop, 1);
    }

    /** Returns every {@code step}-th position from {@code start} up to but not including {@code stop}. */
    static Index range(long start, long stop, long step) {
        return new Range(start, stop, step);
    }

    /** Returns the positions from {@code start} to the end. */
    static Index from(long start) {
        return new Range(start, OPEN, 1);
    }

    /** Returns the positions from the beginning up to but not including {@code stop}. */
    static Index until(long stop) {
        return new Range(OPEN, stop, 1);
    }

    /** Returns the whole dimension. */
    static Index all() {
        return new Range(OPEN, OPEN, 1);
    }

    /** Returns a new dimension of size 1. */
    static Index newAxis() {
        return new NewAxis();
    }

    /** Returns as many whole dimensions as the other indices leave over. */
    static Index ellipsis() {
        return new Ellipsis();
    }

    /** Returns the positions given by an integer tensor, or those where a bool tensor is true. */
    static Index of(Tensor places) {
        if (places.dtype() == DType.BOOL) {
            return mask(places);
        }
        if (places.dtype() != DType.I64 && places.dtype() != DType.I32) {
            throw new TensorException(TensorException.Problem.DTYPE, "index", List.of(places.spec()),
                    "indices must be i64, i32 or bool", "cast with to(DType.I64)");
        }
        return new Of(places);
    }

    /** Returns the given positions. */
    static Index of(long... places) {
        return new Of(Tensor.of(places, places.length));
    }

    /** Returns the positions where a bool tensor is true. */
    static Index mask(Tensor chosen) {
        if (chosen.dtype() != DType.BOOL || chosen.rank() == 0) {
            throw new TensorException(TensorException.Problem.DTYPE, "index", List.of(chosen.spec()),
                    "a mask must be bool of rank 1 or more", "compare the tensor with a value first");
        }
        return new Mask(chosen);
    }

    /**
     * Parses indices in NumPy's notation: {@code "1:3, ::-1, ..., None, -2"}.
     *
     * @throws TensorException if the text is not of this form
     */
    static Index[] parse(String text) {
        List<Index> indices = new ArrayList<>();
        for (String part : text.split(",", -1)) {
            indices.add(parseOne(part.strip(), text));
        }
        return indices.toArray(Index[]::new);
    }

    private static Index parseOne(String part, String text) {
        if (part.equals("...")) {
            return ellipsis();
        }
        if (part.equals("None") || part.equals("newaxis")) {
            return newAxis();
        }
        try {
            String[] ends = part.split(":", -1);
            if (ends.length == 1) {
                return at(Long.parseLong(part));
            }
            if (ends.length <= 3) {
                String step = ends.length == 3 ? ends[2].strip() : "";
                return new Range(end(ends[0]), end(ends[1]), step.isEmpty() ? 1 : Long.parseLong(step));
            }
        } catch (NumberFormatException e) {
            // Reported below, like any other malformed text.
        }
        throw TensorException.argument("index", "\"" + part + "\" in \"" + text + "\" is not an index",
                "write a number, start:stop:step, ... or None");
    }

    private static long end(String text) {
        return text.isBlank() ? OPEN : Long.parseLong(text.strip());
    }
}
