package dev.starling.cuda.known;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.known.LibraryFault.Library;
import dev.starling.cuda.known.LibraryFault.Remedy;
import dev.starling.tensor.DType;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

/** Each row concerns the calls that it names, from its first version to its last, and no others. */
class LibraryFaultsTest {
    /** A version that has no fault which a later one has not. */
    private static final long NEW = 93000;

    /** A call that no row concerns: causal attention of 128 keys on Hopper. */
    private static final class Call {
        private boolean backward;
        private boolean sameBits;
        private boolean causal = true;
        private boolean masked;
        private long batch = 8;
        private long heads = 12;
        private long queries = 128;
        private long keys = 128;
        private long width = 64;
        private long depth = 64;
        private int capability = 90;

        Asked.Attention asked() {
            return new Asked.Attention(backward, sameBits, causal, masked, batch, heads, queries, keys, width, depth,
                    capability);
        }
    }

    private static boolean has(Remedy remedy, long version, Asked asked) {
        return LibraryFaults.find(remedy, Library.CUDNN, version, asked) != null;
    }

    private static boolean isDeclined(long version, Asked asked) {
        return has(Remedy.DECLINE, version, asked);
    }

    private static boolean isPadded(long version, Call call) {
        return has(Remedy.PAD, version, call.asked());
    }

    private static Call gradient() {
        Call call = new Call();
        call.backward = true;
        return call;
    }

    @Test
    void asksForAttentionFromTheFirstSoundVersionOn() {
        for (Call call : List.of(new Call(), gradient())) {
            assertThat(isDeclined(90900, call.asked())).isTrue();
            assertThat(isDeclined(91000, call.asked())).isTrue();
            assertThat(isDeclined(91001, call.asked())).isTrue();
            assertThat(isDeclined(91002, call.asked())).isFalse();
            assertThat(isDeclined(NEW, call.asked())).isFalse();
        }
    }

    @Test
    void doesNotAskForOneKeyNorForTheGradientOfOneQuery() {
        Call call = new Call();
        call.queries = 1;
        assertThat(isDeclined(NEW, call.asked())).isFalse();
        call.backward = true;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
        call.queries = 2;
        assertThat(isDeclined(NEW, call.asked())).isFalse();
        call.keys = 1;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
        call.backward = false;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
    }

    @Test
    void doesNotAskForMoreSequencesOrHeadsThanBlocks() {
        Call call = new Call();
        call.batch = 65_535;
        call.heads = 65_535;
        assertThat(isDeclined(NEW, call.asked())).isFalse();
        call.batch = 65_536;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
        call.batch = 1;
        call.heads = 65_536;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
    }

    @Test
    void doesNotAskOnOldGpus() {
        Call call = new Call();
        call.capability = 75;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
        call.capability = 80;
        assertThat(isDeclined(NEW, call.asked())).isFalse();
    }

    @Test
    void asksForWideHeadsWhereTheyAreSound() {
        Call call = new Call();
        call.width = 256;
        call.depth = 256;
        assertThat(isDeclined(92200, call.asked())).isTrue();
        assertThat(isDeclined(92201, call.asked())).isFalse();
        call.backward = true;
        assertThat(isDeclined(NEW, call.asked())).isTrue();
        call.width = 192;
        call.depth = 128;
        assertThat(isDeclined(91100, call.asked())).isFalse();
        call.backward = false;
        assertThat(isDeclined(91100, call.asked())).isFalse();
        call.width = 128;
        call.depth = 136;
        assertThat(isDeclined(92200, call.asked())).isTrue();
    }

    @Test
    void doesNotAskForTheSameBitsOnBlackwellBeforeTheyAreOffered() {
        Call call = gradient();
        call.sameBits = true;
        call.capability = 100;
        assertThat(isDeclined(91800, call.asked())).isTrue();
        assertThat(isDeclined(91801, call.asked())).isFalse();
        call.sameBits = false;
        assertThat(isDeclined(91800, call.asked())).isFalse();
        call.sameBits = true;
        call.capability = 90;
        assertThat(isDeclined(91800, call.asked())).isFalse();
    }

    @Test
    void padsGradientsOfKeysThat128DoesNotDivide() {
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
    void asksForRecurrentLayersInBf16FromTheFirstVersionOnThatHasThem() {
        assertThat(isDeclined(91299, new Asked.Recurrence(DType.BF16))).isTrue();
        assertThat(isDeclined(91300, new Asked.Recurrence(DType.BF16))).isFalse();
        assertThat(isDeclined(91299, new Asked.Recurrence(DType.F16))).isFalse();
    }

    @Test
    void doesNotAskForProductsOfFarOperands() {
        Predicate<Asked.Product> declined =
                p -> LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130600, p) != null;
        assertThat(declined).accepts(new Asked.Product(DType.F32, 1L << 31))
                .rejects(new Asked.Product(DType.F32, (1L << 31) - 1), new Asked.Product(DType.BF16, 1L << 31));
        assertThat(LibraryFaults.find(Remedy.DECLINE, Library.CUBLASLT, 130599, new Asked.Product(DType.F32, 1L << 31)))
                .isNull();
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
