package dev.starling.distributed.ps.server;

import dev.starling.distributed.ps.store.CheckedFile;
import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.nio.file.Path;

/** The beginning of a server's snapshot: the number of the format, the plan and the server. */
final class SnapshotHeader {
    private static final long MAGIC = 0x32_53_50_4c_52_54_53L;
    /** That of a snapshot without the numbers of rows. */
    private static final long UNCOUNTED = 0x31_53_50_4c_52_54_53L;

    private SnapshotHeader() {
    }

    static void write(CheckedFile out, byte[] encodedPlan, int server) throws IOException {
        out.putLong(MAGIC);
        out.put(encodedPlan);
        out.putInt(server);
    }

    /**
     * Reads the header, and returns whether the snapshot contains the numbers of rows.
     *
     * @throws IOException also if it is a snapshot of another run or server
     */
    static boolean read(Path path, CheckedFile in, Plan plan, int server) throws IOException {
        long magic = in.getLong();
        if (magic != MAGIC && magic != UNCOUNTED) {
            throw new IOException(path + " is not a snapshot of a parameter server");
        }
        byte[] saved = in.getBytes();
        int of = in.getInt();
        if (!Plan.decode(saved).equals(plan) || of != server) {
            throw new IOException(path + " belongs to server " + of + " of another run: the model, the optimiser, the "
                    + "number of servers or workers or the consistency differs; use an empty directory, or the "
                    + "settings of that run");
        }
        return magic == MAGIC;
    }
}
