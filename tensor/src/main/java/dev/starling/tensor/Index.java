package dev.starling.tensor;

import java.util.ArrayList;
import java.util.List;

/**
 * What to read or write along a dimension, as between NumPy's brackets. Several together follow NumPy's rules; see
 * {@link Indexing#get(Index...)}.
 */
public sealed interface Index {
    /** An open end of a {@link Range}. */
    long OPEN = Long.MIN_VALUE;

    /**
     * One place; the dimension vanishes.
     *
     * @param place counted from 0, or from the end if negative
     */
    record At(long place) implements Index { }

    /**
     * Regular places. Ends count from the end if negative, and are clipped to the dimension.
     *
     * @param start the first place, or {@link #OPEN}
     * @param stop where to end, itself left out, or {@link #OPEN}
     * @param step between places; negative runs backwards; not 0
     */
    record Range(long start, long stop, long step) implements Index {
        /** Checks the step. */
        public Range {
            if (step == 0) {
                throw TensorException.argument("index", "the step of a range must not be 0", "use 1 or -1");
            }
        }

        /** Returns the first place within a dimension of {@code size}. */
        long first(long size) {
            long least = step > 0 ? 0 : -1;
            long greatest = step > 0 ? size : size - 1;
            return start == OPEN ? (step > 0 ? least : greatest) : clip(start, size, least, greatest);
        }

        /** Returns how many places of a dimension of {@code size} there are. */
        long count(long size) {
            long least = step > 0 ? 0 : -1;
            long greatest = step > 0 ? size : size - 1;
            long end = stop == OPEN ? (step > 0 ? greatest : least) : clip(stop, size, least, greatest);
            long first = first(size);
            long span = step > 0 ? end - first : first - end;
            return span <= 0 ? 0 : (span - 1) / Math.abs(step) + 1;
        }

        private static long clip(long place, long size, long least, long greatest) {
            return Math.clamp(place < 0 ? place + size : place, least, greatest);
        }
    }

    /** A new dimension of size 1. */
    record NewAxis() implements Index { }

    /** As many whole dimensions as the other indices leave. */
    record Ellipsis() implements Index { }

    /**
     * Places named by an integer tensor of any shape.
     *
     * @param places i64 or i32; negative ones count from the end
     */
    record Of(Tensor places) implements Index { }

    /**
     * The places where a bool tensor is true; it takes the place of as many dimensions as it has.
     *
     * @param chosen bool, of the sizes of those dimensions
     */
    record Mask(Tensor chosen) implements Index { }

    /** Returns one place; negative counts from the end. The dimension vanishes. */
    static Index at(long place) {
        return new At(place);
    }

    /** Returns the places from {@code start} up to but not including {@code stop}. */
    static Index range(long start, long stop) {
        return new Range(start, stop, 1);
    }

    /** Returns each {@code step}-th place from {@code start} up to but not including {@code stop}. */
    static Index range(long start, long stop, long step) {
        return new Range(start, stop, step);
    }

    /** Returns the places from {@code start} to the end. */
    static Index from(long start) {
        return new Range(start, OPEN, 1);
    }

    /** Returns the places from the beginning up to but not including {@code stop}. */
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

    /** Returns as many whole dimensions as the other indices leave. */
    static Index ellipsis() {
        return new Ellipsis();
    }

    /** Returns the places that an integer tensor names, or those where a bool tensor is true. */
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

    /** Returns the places {@code places}. */
    static Index of(long... places) {
        return new Of(Tensor.of(places, places.length));
    }

    /** Returns the places where a bool tensor is true. */
    static Index mask(Tensor chosen) {
        if (chosen.dtype() != DType.BOOL || chosen.rank() == 0) {
            throw new TensorException(TensorException.Problem.DTYPE, "index", List.of(chosen.spec()),
                    "a mask must be bool of rank 1 or more", "compare first");
        }
        return new Mask(chosen);
    }

    /**
     * Reads indices as NumPy writes them between brackets: {@code "1:3, ::-1, ..., None, -2"}.
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
            // told below, as for any other text
        }
        throw TensorException.argument("index", "\"" + part + "\" in \"" + text + "\" is no index",
                "write a place, start:stop:step, ... or None");
    }

    private static long end(String text) {
        return text.isBlank() ? OPEN : Long.parseLong(text.strip());
    }
}
