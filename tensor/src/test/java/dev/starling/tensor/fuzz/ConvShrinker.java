package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.fuzz.ConvCase.Axis;
import dev.starling.tensor.fuzz.ConvCase.Layout;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;

/** Reduces a case while it still fails. */
final class ConvShrinker {
    private ConvShrinker() {
    }

    static ConvCase shrink(ConvCase failing, Predicate<ConvCase> fails) {
        ConvCase smallest = failing;
        boolean smaller = true;
        while (smaller) {
            smaller = false;
            for (ConvCase next : smaller(smallest)) {
                if (next.isLegal() && fails.test(next)) {
                    smallest = next;
                    smaller = true;
                    break;
                }
            }
        }
        return smallest;
    }

    private static List<ConvCase> smaller(ConvCase c) {
        List<ConvCase> all = new ArrayList<>();
        for (int i = 0; i < c.axes().size(); i++) {
            List<Axis> axes = new ArrayList<>(c.axes());
            Axis a = axes.remove(i);
            all.add(with(c, axes, c.layout(), c.bias(), c.relu(), c.threads()));
            for (Axis next : List.of(new Axis(a.size() - 1, a.kernel(), a.stride(), a.padding(), a.dilation()),
                    new Axis(a.size(), a.kernel() - 1, a.stride(), a.padding(), a.dilation()),
                    new Axis(a.size(), a.kernel(), a.stride() - 1, a.padding(), a.dilation()),
                    new Axis(a.size(), a.kernel(), a.stride(), a.padding() - 1, a.dilation()),
                    new Axis(a.size(), a.kernel(), a.stride(), a.padding(), a.dilation() - 1))) {
                List<Axis> changed = new ArrayList<>(c.axes());
                changed.set(i, next);
                all.add(with(c, changed, c.layout(), c.bias(), c.relu(), c.threads()));
            }
        }
        int[][] sizes = {{1, c.groups(), c.in(), c.out()}, {c.batch(), 1, c.in(), c.out()},
            {c.batch(), c.groups(), 1, c.out()}, {c.batch(), c.groups(), c.in(), 1},
            {c.batch() - 1, c.groups(), c.in(), c.out()}, {c.batch(), c.groups() - 1, c.in(), c.out()},
            {c.batch(), c.groups(), c.in() - 1, c.out()}, {c.batch(), c.groups(), c.in(), c.out() - 1}};
        for (int[] s : sizes) {
            all.add(new ConvCase(c.pass(), c.type(), s[0], s[1], s[2], s[3], c.axes(), c.layout(), c.bias(), c.relu(),
                    c.threads()));
        }
        all.add(with(c, c.axes(), Layout.ROWS, c.bias(), c.relu(), c.threads()));
        all.add(with(c, c.axes(), c.layout(), false, c.relu(), c.threads()));
        all.add(with(c, c.axes(), c.layout(), c.bias(), false, c.threads()));
        all.add(with(c, c.axes(), c.layout(), c.bias(), c.relu(), 1));
        all.add(new ConvCase(c.pass(), DType.F32, c.batch(), c.groups(), c.in(), c.out(), c.axes(), c.layout(),
                c.bias(), c.relu(), c.threads()));
        all.removeIf(next -> next.equals(c));
        return all;
    }

    private static ConvCase with(ConvCase c, List<Axis> axes, Layout layout, boolean bias, boolean relu,
            int threads) {
        return new ConvCase(c.pass(), c.type(), c.batch(), c.groups(), c.in(), c.out(), List.copyOf(axes), layout,
                bias, relu, threads);
    }
}
