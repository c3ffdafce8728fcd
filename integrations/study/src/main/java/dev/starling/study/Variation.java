package dev.starling.study;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Index;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/**
 * In training shifts each image {@code [N, C, H, W]} by up to {@code margin} pixels in each direction, fills with
 * zeros, and mirrors every second one; otherwise returns its input.
 *
 * @param margin maximum shift in pixels
 */
record Variation(int margin) implements Layer {
    @Override
    public Tensor forward(Tensor x) {
        return Mode.isTraining() && x.size(0) > 0 ? vary(x, Mode.generator()) : x;
    }

    private Tensor vary(Tensor x, Generator generator) {
        long images = x.size(0);
        long height = x.size(2);
        long width = x.size(3);
        Spec shifts = new Spec(DType.I64, Shape.of(images, 1, 1), x.device());
        Spec places = new Spec(DType.I64, Shape.of(1), x.device());
        Tensor rows = range(places, height).reshape(1, height, 1).add(generator.integers(shifts, 0, 2L * margin + 1));
        Tensor columns = range(places, width).reshape(1, 1, width);
        // 1 or -1, and the mirrored place of j is width - 1 - j.
        Tensor mirrored = generator.integers(shifts, 0, 2);
        columns = columns.add(mirrored.mul(columns.mul(-2).add(width - 1)))
                .add(generator.integers(shifts, 0, 2L * margin + 1));
        long[] border = {0, 0, margin, margin};
        Tensor channelsLast = x.pad(border, border, 0).permute(0, 2, 3, 1);
        return channelsLast.get(Index.of(range(places, images).reshape(images, 1, 1)), Index.of(rows),
                Index.of(columns)).permute(0, 3, 1, 2);
    }

    private static Tensor range(Spec like, long n) {
        return Tensor.arange(new Spec(like.dtype(), Shape.of(n), like.device()), 0, 1);
    }
}
