package dev.starling.distributed.state;

import dev.starling.distributed.DistributedException;
import dev.starling.nn.train.TrainingState;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;

/**
 * A summary of a rank's training state.
 *
 * @param fresh whether the rank has not taken part in the run yet
 * @param step number of steps that it has taken
 * @param epoch number of the epoch
 * @param batch place in the epoch
 * @param notes of the state
 * @param checks checksums of the paths and types of its tensors; one covers several tensors if there are many
 */
record StateSummary(boolean fresh, long step, int epoch, int batch, Map<String, String> notes, int[] checks) {
    private static final int MAX_CHECKS = 2048;

    static StateSummary of(TrainingState state, boolean fresh) {
        List<String> tensors = describe(state);
        int[] checks = new int[Math.min(MAX_CHECKS, tensors.size())];
        for (int i = 0; i < checks.length; i++) {
            CRC32 crc = new CRC32();
            for (int k = i; k < tensors.size(); k += MAX_CHECKS) {
                crc.update(tensors.get(k).getBytes(StandardCharsets.UTF_8));
            }
            checks[i] = (int) crc.getValue();
        }
        return new StateSummary(fresh, state.step(), state.epoch(), state.batch(), state.notes(), checks);
    }

    private static List<String> describe(TrainingState state) {
        List<String> tensors = new ArrayList<>();
        state.tensors().forEach((path, p) -> tensors.add(path + " " + p.value().dtype() + p.shape()));
        return tensors;
    }

    byte[] encode() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeBoolean(fresh);
            out.writeLong(step);
            out.writeInt(epoch);
            out.writeInt(batch);
            out.writeShort(notes.size());
            for (Map.Entry<String, String> note : notes.entrySet()) {
                out.writeUTF(note.getKey());
                out.writeUTF(note.getValue());
            }
            out.writeShort(checks.length);
            for (int check : checks) {
                out.writeInt(check);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("a note of the training state is too long", e);
        }
        return bytes.toByteArray();
    }

    static StateSummary decode(byte[] bytes, int rank) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes))) {
            boolean fresh = in.readBoolean();
            long step = in.readLong();
            int epoch = in.readInt();
            int batch = in.readInt();
            Map<String, String> notes = new LinkedHashMap<>();
            for (int n = in.readUnsignedShort(); n > 0; n--) {
                notes.put(in.readUTF(), in.readUTF());
            }
            int[] checks = new int[in.readUnsignedShort()];
            for (int i = 0; i < checks.length; i++) {
                checks[i] = in.readInt();
            }
            return new StateSummary(fresh, step, epoch, batch, notes, checks);
        } catch (IOException e) {
            throw new DistributedException("rank " + rank + " sent a malformed summary of its state; "
                    + "use the same version of this library on all ranks", e);
        }
    }

    /** Returns whether this state should be preferred; of equal ones, that of the lower rank is. */
    boolean isAheadOf(StateSummary other) {
        if (fresh || other.fresh) {
            return !fresh;
        }
        // Of two ranks after the same step, prefer the one that has yet to measure the epoch that ended with it: all
        // ranks repeat that.
        return step != other.step ? step > other.step : epoch < other.epoch;
    }

    boolean isAt(StateSummary other) {
        return step == other.step && epoch == other.epoch && batch == other.batch;
    }

    /** Checks that two ranks train the same model. */
    void requireSameModel(StateSummary first, int rank, TrainingState own) {
        for (int i = 0; i < Math.max(checks.length, first.checks.length); i++) {
            if (i >= checks.length || i >= first.checks.length || checks[i] != first.checks[i]) {
                List<String> tensors = describe(own);
                throw new DistributedException("rank " + rank + " trains another model than rank 0: their tensors "
                        + "number " + i + " differ, here it is " + (i < tensors.size() ? tensors.get(i) : "absent")
                        + "; build the same model and optimiser on all ranks");
            }
        }
    }
}
