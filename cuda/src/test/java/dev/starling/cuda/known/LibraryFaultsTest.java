package dev.starling.cuda.known;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.known.LibraryFault.Library;
import dev.starling.cuda.known.LibraryFault.Remedy;
import dev.starling.tensor.DType;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

/** Each row affects the queries that it names, from its first version to its last, and no others. */
class LibraryFaultsTest {
    /** A version without faults that a later version has fixed. */
    private static final long NEW = 93000;

    /** A query that no row affects: causal attention of 128 keys on Hopper. */
    private static final class Call {
        private boolean backward;
        private boolean deterministic;
        private boolean causal = true;
        private boolean masked;
        private long batch = 8;
        private long heads = 12;
        private long queries = 128;
        private long keys = 128;
        private long width = 64;
        private long depth = 64;
        private int capability = 90;

        LibraryQuery.Attention query() {
            return new LibraryQuery.Attention(backward, deterministic, causal, masked, batch, heads, queries, keys,
                    width, depth, capability);
        }
    }

    private static boolean has(Remedy remedy, long version, LibraryQuery query) {
        return LibraryFaults.find(remedy, Library.CUDNN, version, query) != null;
    }

    private static boolean isDeclined(long version, LibraryQuery query) {
        return has(Remedy.DECLINE, version, query);
    }

    private static boolean isPadded(long version, Call call) {
        return has(Remedy.PAD, version, call.query());
    }

    private static Call gradient() {
        Call call = new Call();
        call.backward = true;
        return call;
    }

    @Test
    void allowsAttentionFromTheFirstCorrectVersionOn() {
        for (Call call : List.of(new Call(), gradient())) {
            assertThat(isDeclined(90900, call.query())).isTrue();
            assertThat(isDeclined(91000, call.query())).isTrue();
            assertThat(isDeclined(91001, call.query())).isTrue();
            assertThat(isDeclined(91002, call.query())).isFalse();
            assertThat(isDeclined(NEW, call.query())).isFalse();
        }
    }

    @Test
    void declinesOneKeyAndTheGradientOfOneQuery() {
        Call call = new Call();
        call.queries = 1;
        assertThat(isDeclined(NEW, call.query())).isFalse();
        call.backward = true;
        assertThat(isDeclined(NEW, call.query())).isTrue();
        call.queries = 2;
        assertThat(isDeclined(NEW, call.query())).isFalse();
        call.keys = 1;
        assertThat(isDeclined(NEW, call.query())).isTrue();
        call.backward = false;
        assertThat(isDeclined(NEW, call.query())).isTrue();
    }

    @Test
    void declinesOneQueryOnBlackwellWhereItIsWrong() {
        Call call = new Call();
        call.queries = 1;
        for (int capability : new int[] {100, 103, 110}) {
            call.capability = capability;
            assertThat(isDeclined(91899, call.query())).isFalse();
            assertThat(isDeclined(91900, call.query())).isTrue();
            assertThat(isDeclined(92500, call.query())).isTrue();
            assertThat(isDeclined(92501, call.query())).isFalse();
        }
        call.queries = 2;
        assertThat(isDeclined(92500, call.query())).isFalse();
        call.queries = 1;
        for (int capability : new int[] {90, 120}) {
            call.capability = capability;
            assertThat(isDeclined(92500, call.query())).isFalse();
        }
    }

    @Test
    void declinesDepthwiseConvolutionsWhereTheyAreWrong() {
        LibraryQuery depthwise = new LibraryQuery.Convolution(true);
        assertThat(isDeclined(92001, depthwise)).isFalse();
        assertThat(isDeclined(92100, depthwise)).isTrue();
        assertThat(isDeclined(92399, depthwise)).isTrue();
        assertThat(isDeclined(92400, depthwise)).isFalse();
        assertThat(isDeclined(92301, new LibraryQuery.Convolution(false))).isFalse();
    }

    @Test
    void declinesMoreSequencesOrHeadsThanBlocks() {
        Call call = new Call();
        call.batch = 65_535;
        call.heads = 65_535;
        assertThat(isDeclined(NEW, call.query())).isFalse();
        call.batch = 65_536;
        assertThat(isDeclined(NEW, call.query())).isTrue();
        call.batch = 1;
        call.heads = 65_536;
        assertThat(isDeclined(NEW, call.query())).isTrue();
    }

    @Test
    void declinesOldGpus() {
        Call call = new Call();
        call.capability = 75;
        assertThat(isDeclined(NEW, call.query())).isTrue();
        call.capability = 80;
        assertThat(isDeclined(NEW, call.query())).isFalse();
    }

    @Test
    void allowsWideHeadsWhereTheyAreCorrect() {
        Call call = new Call();
        call.width = 256;
        call.depth = 256;
        assertThat(isDeclined(92200, call.query())).isTrue();
        assertThat(isDeclined(92201, call.query())).isFalse();
        call.backward = true;
        assertThat(isDeclined(NEW, call.query())).isTrue();
        call.width = 192;
        call.depth = 128;
        assertThat(isDeclined(91100, call.query())).isFalse();
        call.backward = false;
        assertThat(isDeclined(91100, call.query())).isFalse();
        call.width = 128;
        call.depth = 136;
        assertThat(isDeclined(92200, call.query())).isTrue();
    }

    @Test
    void declinesDeterministicGradientsOnBlackwellUntilSupported() {
        Call call = gradient();
        call.deterministic = true;
        call.capability = 100;
        assertThat(isDeclined(91800, call.query())).isTrue();
        assertThat(isDeclined(91801, call.query())).isFalse();
        call.deterministic = false;
        assertThat(isDeclined(91800, call.query())).isFalse();
        call.deterministic = true;
        call.capability = 90;
        assertThat(isDeclined(91800, call.query())).isFalse();
    }

    @Test
    void padsGradientsOfKeysNotDivisibleBy128() {
        for (long keys : new long[] {64, 100, 129, 1000}) {
            Call call = gradient();
            call.keys = keys;
            assertThat(isPadded(91002, call)).isTrue();
            assertThat(isPadded(91500, call)).isTrue();
            assertThat(isPadded(91501, call)).isFalse();
            call.backward = false;
            assertThat(isPadded(91500, call)).isFalse();
        }
        Call divided = gradient();
        divided.keys = 1280;
        assertThat(isPadded(91500, divided)).isFalse();
    }

    @Test
    void padsGradientsThatAreNotPlainCausal() {
        Call call = gradient();
        assertThat(isPadded(NEW, call)).isFalse();
        call.masked = true;
        assertThat(isPadded(NEW, call)).isTrue();
        call.causal = false;
        assertThat(isPadded(NEW, call)).isTrue();
        call.masked = false;
        assertThat(isPadded(NEW, call)).isTrue();
        call.backward = false;
        assertThat(isPadded(NEW, call)).isFalse();
    }

    @Test
    void allowsRecurrentLayersInBf16FromTheFirstVersionOn() {
        assertThat(isDeclined(91299, new LibraryQuery.Recurrence(DType.BF16))).isTrue();
        assertThat(isDeclined(91300, new LibraryQuery.Recurrence(DType.BF16))).isFalse();
        assertThat(isDeclined(91299, new LibraryQuery.Recurrence(DType.F16))).isFalse();
    }

    @Test
    void declinesProductsOfOperandsWithALargeSpan() {
        Predicate<LibraryQuery.Product> declined =
                p -> LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130600, p) != null;
        assertThat(declined).accepts(new LibraryQuery.Product(DType.F32, 1L << 31, false, 90))
                .rejects(new LibraryQuery.Product(DType.F32, (1L << 31) - 1, false, 90),
                        new LibraryQuery.Product(DType.BF16, 1L << 31, false, 90));
        assertThat(LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130599,
                new LibraryQuery.Product(DType.F32, 1L << 31, false, 90))).isNull();
    }

    @Test
    void declinesProductsOfInterleavedMatricesWhereTheLibraryReadsPastThem() {
        Predicate<LibraryQuery.Product> declined =
                p -> LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130600, p) != null;
        assertThat(declined).accepts(new LibraryQuery.Product(DType.BF16, 100, true, 120),
                        new LibraryQuery.Product(DType.F32, 100, true, 121))
                .rejects(new LibraryQuery.Product(DType.BF16, 100, false, 120),
                        new LibraryQuery.Product(DType.BF16, 100, true, 100));
        assertThat(LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130601,
                new LibraryQuery.Product(DType.BF16, 100, true, 120))).isNull();
    }

    @Test
    void namesSymptomAndSourceInEachRow() {
        assertThat(LibraryFaults.all()).allSatisfy(fault -> {
            assertThat(fault.first()).isLessThanOrEqualTo(fault.last());
            assertThat(fault.symptom()).isNotBlank();
            assertThat(fault.source()).isNotBlank();
        });
    }
}
