package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.cpu.onednn.ConvolutionShape;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnnFault;
import dev.starling.tensor.cpu.onednn.Pass;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The reduction of convolutions, against a list of all taps, positions and pixels that contribute. */
class ConvCutTest {
    private interface Visitor {
        void visit(long in, long kernel, long out, long stride, long padding, long dilation);
    }

    private static void eachAxis(Visitor visitor) {
        for (long in = 1; in <= 8; in++) {
            for (long kernel = 1; kernel <= 6; kernel++) {
                for (long stride = 1; stride <= 5; stride++) {
                    for (long padding = 0; padding <= 9; padding++) {
                        for (long dilation = 1; dilation <= 5; dilation++) {
                            long span = in + 2 * padding - dilation * (kernel - 1) - 1;
                            if (span >= 0) {
                                visitor.visit(in, kernel, span / stride + 1, stride, padding, dilation);
                            }
                        }
                    }
                }
            }
        }
    }

    @Test
    void keepsExactlyWhatContributes() {
        eachAxis((in, kernel, out, stride, padding, dilation) -> {
            String as = in + " " + kernel + " " + out + " " + stride + " " + padding + " " + dilation;
            TreeSet<Long> taps = new TreeSet<>();
            TreeSet<Long> places = new TreeSet<>();
            TreeSet<Long> pixels = new TreeSet<>();
            for (long o = 0; o < out; o++) {
                for (long t = 0; t < kernel; t++) {
                    long pixel = o * stride + t * dilation - padding;
                    if (pixel >= 0 && pixel < in) {
                        taps.add(t);
                        places.add(o);
                        pixels.add(pixel);
                    }
                }
            }
            ConvolutionAxis axis = ConvolutionAxis.of(in, kernel, out, stride, padding, dilation);
            assertThat(axis.taps() == 0).as(as).isEqualTo(taps.isEmpty());
            if (taps.isEmpty()) {
                return;
            }
            assertThat(axis.tap()).as(as).isEqualTo(taps.first());
            assertThat(axis.tap() + (axis.taps() - 1) * axis.tapStep()).as(as).isEqualTo(taps.last());
            assertThat(axis.place()).as(as).isEqualTo(places.first());
            assertThat(axis.place() + axis.places() - 1).as(as).isEqualTo(places.last());
            assertThat(axis.pixel()).as(as).isLessThanOrEqualTo(pixels.first());
            assertThat(axis.pixel() + (axis.pixels() - 1) * axis.pixelStep()).as(as)
                    .isGreaterThanOrEqualTo(pixels.last());
            assertThat(axis.gaps()).as(as).isEqualTo(axis.taps() > taps.size() || axis.places() > places.size());
            for (long o = 0; o < axis.places(); o++) {
                for (long t = 0; t < axis.taps(); t++) {
                    long whole = (axis.place() + o) * stride + (axis.tap() + t * axis.tapStep()) * dilation - padding;
                    long kept = axis.pixel() + (o * axis.stride() + t * axis.dilation() - axis.low())
                            * axis.pixelStep();
                    if (kept != whole) {
                        throw new AssertionError(as + ": tap " + t + " at position " + o + " reads " + kept);
                    }
                }
            }
            boolean untouched = axis.taps() == kernel && axis.places() == out && !axis.gaps()
                    && axis.stride() * axis.pixelStep() == stride && axis.dilation() == dilation;
            if (ConvolutionAxis.isWhole(in, kernel, out, stride, padding, dilation)) {
                assertThat(untouched).as(as).isTrue();
            }
        });
    }

    @Test
    void requestsNoGeometryThatIsKnownToFail() {
        int[] requests = new int[1];
        for (int rank = 1; rank <= 3; rank++) {
            int spatial = rank;
            eachAxis((in, kernel, out, stride, padding, dilation) -> {
                ConvolutionShape shape = shape(spatial, in, kernel, out, stride, padding, dilation);
                for (Pass pass : Pass.values()) {
                    for (ElementType type : new ElementType[] {ElementType.F32, ElementType.BF16, ElementType.F16}) {
                        ConvolutionCut cut = ConvolutionCut.of(type, pass, shape);
                        ConvolutionShape given = cut == null ? shape : cut.isEmpty() ? null : cut.kept();
                        for (OneDnnFault fault : OneDnnFault.values()) {
                            if (given != null && fault != OneDnnFault.WRONG_WHERE_STRIDES_SKIP_ROWS
                                    && fault.affects(type, pass, given)) {
                                throw new AssertionError(fault + " of " + type + " is requested: " + given);
                            }
                        }
                        requests[0]++;
                    }
                }
            });
        }
        assertThat(requests[0]).isGreaterThan(50_000);
    }

    /** All dimensions are equal except the first, which has stride 1, and each group has one channel. */
    private static ConvolutionShape shape(int rank, long in, long kernel, long out, long stride, long padding,
            long dilation) {
        long[][] sizes = new long[6][rank];
        long[] values = {in, out, kernel, stride, dilation, padding};
        for (int k = 0; k < values.length; k++) {
            java.util.Arrays.fill(sizes[k], values[k]);
        }
        if (rank > 1) {
            sizes[3][0] = 1;
            sizes[1][0] = in + 2 * padding - dilation * (kernel - 1);
        }
        return new ConvolutionShape(1, 2, 2, 2, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[5]);
    }

    /** oneDNN receives the geometries of common networks unchanged. */
    @ParameterizedTest
    @CsvSource({
        // rank, size, kernel, stride, padding, dilation
        "2, 224, 7, 2, 3, 1", "2, 56, 3, 1, 1, 1", "2, 56, 1, 1, 0, 1", "2, 56, 3, 2, 1, 1", "2, 56, 1, 2, 0, 1",
        "2, 28, 5, 1, 2, 1", "2, 28, 5, 1, 0, 1", "2, 14, 3, 1, 1, 1", "2, 7, 3, 1, 1, 1", "2, 4, 3, 2, 1, 1",
        "2, 2, 3, 1, 1, 1", "2, 224, 16, 16, 0, 1", "2, 32, 3, 1, 2, 2", "2, 32, 4, 2, 1, 1", "2, 7, 7, 1, 0, 1",
        "2, 1, 1, 1, 0, 1", "1, 16000, 10, 5, 0, 1", "1, 100, 3, 1, 4, 4", "3, 16, 3, 1, 1, 1", "3, 16, 3, 2, 1, 1",
        "3, 8, 1, 1, 0, 1", "3, 3, 3, 1, 1, 1"})
    void leavesUsualGeometriesAsTheyAre(int rank, long in, long kernel, long stride, long padding,
            long dilation) {
        long out = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        long[][] sizes = new long[6][rank];
        long[] values = {in, out, kernel, stride, dilation, padding};
        for (int k = 0; k < values.length; k++) {
            java.util.Arrays.fill(sizes[k], values[k]);
        }
        ConvolutionShape shape = new ConvolutionShape(8, 16, 32, 1, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4],
                sizes[5], sizes[5]);
        for (Pass pass : Pass.values()) {
            for (ElementType type : new ElementType[] {ElementType.F32, ElementType.BF16}) {
                assertThat(ConvolutionCut.of(type, pass, shape)).as("%s of %s", pass, type).isNull();
            }
        }
    }
}
