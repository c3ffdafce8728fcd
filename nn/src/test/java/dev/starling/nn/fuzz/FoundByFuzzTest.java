package dev.starling.nn.fuzz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.starling.nn.Initializer;
import dev.starling.nn.Parameter;
import dev.starling.nn.RecordType;
import dev.starling.nn.data.Augment;
import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Field;
import dev.starling.nn.data.Sequences;
import dev.starling.nn.data.Share;
import dev.starling.nn.data.SpillingRows;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.WeightNorm;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.RemoteRun;
import dev.starling.nn.train.Scores;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

/** Invalid arguments for which the fuzzer found errors of the JDK instead of typed errors. */
class FoundByFuzzTest {
    @Test
    void refusesARankWithoutAWeight() {
        for (int rank : new int[] {-1, 2, Integer.MAX_VALUE}) {
            assertEquals("share", assertThrows(TensorException.class, () -> Share.part(rank, new int[] {1, 2})).op());
        }
        assertThrows(TensorException.class, () -> Share.part(0, new int[0]));
        assertThrows(TensorException.class, () -> Share.part(0, new int[] {1, Integer.MAX_VALUE}));
        assertThrows(TensorException.class, () -> Share.part(1, new int[] {-1, 2}));
        assertEquals(new Share.Part(1, 3, 3), Share.part(1, new int[] {1, 2}));
    }

    @Test
    void allocatesNoMemoryForMissingRecords() {
        assertThrows(DataException.class, () -> CifarFile.read(List.of(Path.of("/missing")), 600_000));
    }

    @Test
    void refusesMoreRecordsThanAnArrayCanHold() {
        for (int records : new int[] {-1, Integer.MIN_VALUE, Integer.MAX_VALUE, 1_000_000}) {
            assertEquals("cifar", assertThrows(TensorException.class, () -> CifarFile.read(List.of(Path.of("x"),
                    Path.of("y")), records)).op());
        }
    }

    @Test
    void refusesImagesOutsideOfTheirArrays() {
        Augment augment = Augment.normalize(1, 2, 2, new float[1], new float[] {1});
        for (int[] offsets : new int[][] {{-1, 0}, {1, 0}, {0, -1}, {0, 1}, {Integer.MAX_VALUE, 0}}) {
            assertEquals("augment", assertThrows(TensorException.class, () -> augment.write(1, 0, 0, new byte[4],
                    offsets[0], new float[4], offsets[1])).op());
        }
        augment.write(1, 0, 0, new byte[4], 0, new float[4], 0);
    }

    @Test
    void refusesRowsThatWereNotAdded() {
        try (SpillingRows rows = SpillingRows.of(List.of(Field.of(DType.F32, 3)), 1L << 30, Path.of("/missing"))) {
            for (int index : new int[] {-1, 0, 3}) {
                assertThrows(TensorException.class, () -> rows.write(index, null));
            }
            rows.add(2, (row, memory, offset) -> memory.asSlice(offset, 12).fill((byte) 1));
            assertThrows(TensorException.class, () -> rows.write(1, null));
        }
    }

    @Test
    void refusesOrthogonalWeightsThatTheHostCannotHold() {
        assertEquals("initialise", assertThrows(TensorException.class, () -> Parameter.of(Initializer.orthogonal(1),
                Generator.seeded(1), 1L << 40, 2)).op());
        try (Parameter none = Parameter.of(Initializer.orthogonal(1), Generator.seeded(1), 1L << 40, 2, 0)) {
            assertEquals(0, none.shape().count());
        }
    }

    @Test
    void refusesToNormaliseAWeightWithoutRows() {
        try (Linear linear = Linear.of(Parameter.filled(1), null)) {
            assertEquals("weightNorm", assertThrows(TensorException.class, () -> WeightNorm.of(linear)).op());
        }
    }

    @Test
    void refusesReportsWithOtherMetricsOfHeldOutData() {
        Scores training = new Scores(0.5, Map.of(), Map.of(), 2);
        Scores heldOut = new Scores(0.5, Map.of("accuracy", 1.0), Map.of(), 2);
        assertThrows(TensorException.class, () -> RemoteRun.numbers(new EpochReport(1, 2, training,
                Optional.of(heldOut), 1, 1)));
    }

    /** A cast without a check, as reflection permits. */
    @Test
    @SuppressWarnings({"unchecked", "rawtypes"})
    void refusesClassesThatAreNoRecords() {
        for (Class type : new Class[] {String.class, Record.class}) {
            assertEquals("record", assertThrows(TensorException.class, () -> RecordType.of(type)).op());
        }
    }

    @Test
    void refusesSequencesThatDoNotExist() {
        Sequences one = Sequences.of("a", List.of(new long[] {1}));
        for (int index : new int[] {-1, 1}) {
            assertThrows(TensorException.class, () -> one.write(index, null));
        }
    }
}
