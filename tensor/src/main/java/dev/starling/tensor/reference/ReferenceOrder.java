package dev.starling.tensor.reference;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Sorting;
import java.util.Arrays;
import java.util.Comparator;

/** Cumulative sums and sorting along one dimension. */
final class ReferenceOrder {
    private ReferenceOrder() {
    }

    static void cumSum(Scan.CumSum op, Tensor x, Tensor y) {
        Elements from = Elements.of(x).alongLast(op.axis());
        Elements to = Elements.of(y).alongLast(op.axis());
        long size = x.size(op.axis());
        for (long line = 0; line < x.count(); line += size) {
            double sum = 0;
            long sumOfIntegers = 0;
            for (long j = 0; j < size; j++) {
                long i = line + (op.reverse() ? size - 1 - j : j);
                if (from.floating()) {
                    to.set(i, sum += from.get(i));
                } else {
                    to.setLong(i, sumOfIntegers += from.getLong(i));
                }
            }
        }
    }

    static void sort(Sorting op, Tensor x, Tensor values, Tensor indices) {
        Elements from = Elements.of(x).alongLast(op.axis());
        Elements sorted = Elements.of(values).alongLast(op.axis());
        Elements places = Elements.of(indices).alongLast(op.axis());
        boolean descending = switch (op) {
            case Sorting.Sort o -> o.descending();
            case Sorting.TopK o -> o.largest();
        };
        int size = Math.toIntExact(x.size(op.axis()));
        int kept = Math.toIntExact(values.size(op.axis()));
        for (long line = 0; line < (kept == 0 ? 0 : x.count() / size); line++) {
            Integer[] order = order(from, line * size, size, descending);
            for (int j = 0; j < kept; j++) {
                sorted.copy(line * kept + j, from, line * size + order[j]);
                places.setLong(line * kept + j, order[j]);
            }
        }
    }

    /** Returns the positions of a line's elements in sorted order; the sort is stable. */
    private static Integer[] order(Elements x, long first, int size, boolean descending) {
        Integer[] order = new Integer[size];
        Arrays.setAll(order, j -> j);
        Comparator<Integer> ascending = (a, b) -> x.floating()
                ? compare(x.get(first + a), x.get(first + b))
                : Long.compare(x.getLong(first + a), x.getLong(first + b));
        Arrays.sort(order, descending ? ascending.reversed() : ascending);
        return order;
    }

    /** Compares with NaN above all other values and both zeros equal. */
    private static int compare(double a, double b) {
        if (Double.isNaN(a) || Double.isNaN(b)) {
            return Boolean.compare(Double.isNaN(a), Double.isNaN(b));
        }
        return a < b ? -1 : a > b ? 1 : 0;
    }
}
