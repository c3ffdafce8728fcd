package dev.starling.nn.layer;

import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Convolution.Geometry;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/** Prints the settings of a convolution, without those that have their default. */
final class ConvSettings {
    private ConvSettings() {
    }

    static String of(Shape weight, Geometry geometry, int @Nullable [] outputPadding, boolean bias) {
        long first = weight.dim(0);
        long second = weight.dim(1) * geometry.groups();
        StringBuilder text = new StringBuilder();
        text.append(outputPadding == null ? second : first).append(", ").append(outputPadding == null ? first : second);
        text.append(", kernel=").append(weight.slice(2, weight.rank()));
        unless(1, text, "stride", geometry.stride());
        unless(0, text, "padding", geometry.padding());
        unless(1, text, "dilation", geometry.dilation());
        unless(0, text, "outputPadding", outputPadding == null ? new int[0] : outputPadding);
        unless(1, text, "groups", geometry.groups());
        return text.append(bias ? "" : ", bias=false").toString();
    }

    private static void unless(int usual, StringBuilder text, String setting, int... values) {
        if (Arrays.stream(values).anyMatch(v -> v != usual)) {
            text.append(", ").append(setting).append('=')
                    .append(values.length == 1 ? Integer.toString(values[0]) : Arrays.toString(values));
        }
    }
}
