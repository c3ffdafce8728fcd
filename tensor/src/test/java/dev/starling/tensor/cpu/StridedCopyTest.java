package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.fail;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.host.HostMemory;
import java.util.Arrays;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class StridedCopyTest {
    /** Sizes and the order in memory of the source's dimensions; the target's is every other order. */
    @ParameterizedTest
    @CsvSource({"1x1x1", "2x3x5", "64x1x64", "65x63x2", "3x130x70", "9x17x300", "128x9x66", "4x4x4", "1x257x64"})
    void movesEachElementBetweenAllOrdersOfDimensions(String sizes) {
        long[] dims = Arrays.stream(sizes.split("x")).mapToLong(Long::parseLong).toArray();
        int[][] orders = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
        for (DType type : new DType[] {DType.U8, DType.BF16, DType.F32, DType.I64}) {
            for (int[] from : orders) {
                for (int[] to : orders) {
                    try (Scope scope = Scope.open("test")) {
                        moves(type, dims, from, to);
                    }
                }
            }
        }
    }

    private static void moves(DType type, long[] dims, int[] from, int[] to) {
        Tensor source = empty(type, dims, from);
        Tensor target = empty(type, dims, to);
        long count = source.count();
        for (long i = 0; i < count; i++) {
            HostMemory.putLong(type, address(source, i), i % 119);
            HostMemory.putLong(type, address(target, i), 127);
        }
        StridedCopy.copy(source, target);
        for (long i = 0; i < count; i++) {
            if (HostMemory.getLong(type, address(target, i)) != i % 119) {
                fail("%s %s to %s: element %d", type, Arrays.toString(from), Arrays.toString(to), i);
            }
        }
    }

    private static long address(Tensor x, long element) {
        long offset = 0;
        long rest = element;
        for (int d = x.rank() - 1; d >= 0; d--) {
            offset += rest % x.size(d) * x.stride(d);
            rest /= x.size(d);
        }
        return x.address() + offset * x.dtype().bytes();
    }

    /** Makes a tensor whose dimension {@code order[0]} is the outermost in memory. */
    private static Tensor empty(DType type, long[] dims, int[] order) {
        long[] sizes = new long[order.length];
        int[] inverse = new int[order.length];
        for (int i = 0; i < order.length; i++) {
            sizes[i] = dims[order[i]];
            inverse[order[i]] = i;
        }
        return Storage.allocate(new Spec(type, Shape.of(sizes), Device.cpu())).permute(inverse);
    }
}
