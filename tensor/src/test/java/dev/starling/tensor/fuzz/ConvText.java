package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.fuzz.ConvCase.Axis;
import dev.starling.tensor.fuzz.ConvCase.Layout;
import dev.starling.tensor.fuzz.ConvCase.Pass;
import java.util.ArrayList;
import java.util.List;
import java.util.Scanner;

/** A case as one line of text, for another process. */
final class ConvText {
    private ConvText() {
    }

    static String write(ConvCase c) {
        StringBuilder text = new StringBuilder();
        text.append(c.pass()).append(' ').append(c.type().name()).append(' ').append(c.layout());
        for (Object value : List.of(c.batch(), c.groups(), c.in(), c.out(), c.bias(), c.relu(), c.threads())) {
            text.append(' ').append(value);
        }
        for (Axis a : c.axes()) {
            for (int value : new int[] {a.size(), a.kernel(), a.stride(), a.padding(), a.dilation()}) {
                text.append(' ').append(value);
            }
        }
        return text.toString();
    }

    static ConvCase read(String text) {
        Scanner words = new Scanner(text);
        Pass pass = Pass.valueOf(words.next());
        DType type = DType.valueOf(words.next());
        Layout layout = Layout.valueOf(words.next());
        int batch = words.nextInt();
        int groups = words.nextInt();
        int in = words.nextInt();
        int out = words.nextInt();
        boolean bias = words.nextBoolean();
        boolean relu = words.nextBoolean();
        int threads = words.nextInt();
        List<Axis> axes = new ArrayList<>();
        while (words.hasNextInt()) {
            axes.add(new Axis(words.nextInt(), words.nextInt(), words.nextInt(), words.nextInt(), words.nextInt()));
        }
        return new ConvCase(pass, type, batch, groups, in, out, axes, layout, bias, relu, threads);
    }
}
