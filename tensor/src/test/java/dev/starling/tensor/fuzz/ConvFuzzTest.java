package dev.starling.tensor.fuzz;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.fuzz.ConvCase.Axis;
import dev.starling.tensor.fuzz.ConvCase.Layout;
import dev.starling.tensor.fuzz.ConvCase.Pass;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ConvFuzzTest {
    private static final long SHORT = 500;

    /** The first numbers of the enumeration, and some from its middle and from its last third. */
    @ParameterizedTest
    @ValueSource(longs = {0, 1, 2})
    void agreesWithPlainLoopsOnASample(long third) throws Exception {
        long from = third * ConvEnumeration.size() / 3;
        ConvFuzz.Report report = ConvFuzz.run(from, from + SHORT, 1);
        assertThat(report.findings()).as("numbers from %d", from).isEmpty();
        assertThat(report.geometries()).isGreaterThan(SHORT / 4);
    }

    @Test
    @Tag("stress")
    void agreesWithPlainLoopsOnAllGeometries() throws Exception {
        ConvFuzz.Report report = ConvFuzz.run(0, ConvEnumeration.size(), 1);
        assertThat(report.findings()).isEmpty();
        assertThat(report.geometries()).isGreaterThan(500_000);
    }

    @ParameterizedTest
    @EnumSource(Pass.class)
    void agreesWhereTapsAndPositionsReadOnlyPadding(Pass pass) {
        for (Layout layout : Layout.values()) {
            for (DType type : List.of(DType.F32, DType.BF16, DType.F64)) {
                for (List<Axis> axes : List.of(
                        // One pixel, which only the middle tap of one dimension reads; the outer taps alternate.
                        List.of(new Axis(1, 3, 2, 1, 1), new Axis(1, 3, 2, 1, 1)),
                        List.of(new Axis(1, 3, 2, 2, 1)),
                        // Taps between those that read a pixel read none, and no common step connects the others.
                        List.of(new Axis(2, 6, 3, 4, 1)),
                        // Positions between those that read a pixel read none.
                        List.of(new Axis(1, 2, 1, 3, 3), new Axis(3, 2, 1, 0, 1)),
                        // No tap reads a pixel.
                        List.of(new Axis(1, 1, 2, 1, 3)),
                        List.of(new Axis(1, 2, 2, 3, 2), new Axis(4, 2, 1, 1, 1)),
                        // A depth below the kernel's, and padding beyond half of the kernel.
                        List.of(new Axis(2, 3, 1, 1, 1), new Axis(2, 3, 1, 1, 1), new Axis(2, 3, 1, 1, 1)),
                        List.of(new Axis(2, 4, 2, 3, 1), new Axis(4, 1, 1, 0, 1), new Axis(4, 1, 1, 0, 1)),
                        // A single column, and different strides.
                        List.of(new Axis(4, 2, 1, 0, 1), new Axis(3, 3, 2, 0, 1)))) {
                    for (boolean bias : new boolean[] {false, true}) {
                        ConvCase one = new ConvCase(pass, type, 2, 2, 1, 3, axes, layout, bias, bias, 1);
                        assertThat(one.failure()).as(one.toString()).isNull();
                    }
                }
            }
        }
    }

    @Test
    void shrinksToTheSmallestFailingCase() {
        ConvCase large = new ConvCase(Pass.FORWARD, DType.BF16, 3, 2, 4, 8, List.of(new Axis(5, 3, 2, 1, 2),
                new Axis(7, 4, 1, 2, 1)), Layout.STEPPED, true, true, 2);
        ConvCase smallest = ConvShrinker.shrink(large, c -> c.axes().stream().anyMatch(a -> a.kernel() >= 3)
                && c.in() > 1);
        assertThat(smallest).isEqualTo(new ConvCase(Pass.FORWARD, DType.F32, 1, 1, 2, 1,
                List.of(new Axis(1, 3, 1, 1, 1)), Layout.ROWS, false, false, 1));
        assertThat(ConvText.read(ConvText.write(large))).isEqualTo(large);
    }
}
