package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Fills the tables of a server with its rows from a checkpoint, of which each server of the saved run wrote one part.
 * The numbers of servers may differ. The server reads only the parts that can contain its keys: both server numbers of
 * a key are congruent modulo the greatest common divisor of the two numbers of servers.
 */
public final class RowRestorer extends RowTask {
    private final Plan plan;
    private final int server;
    private final EmbeddingRows[] tables;
    private final List<RowRequest.Source> parts;
    private final boolean skipped;
    private final Runnable whenDone;
    private long restored;

    /**
     * Creates a task that has not started.
     *
     * @param parts at least one
     * @param skipped whether the tables keep the rows that they have
     * @param whenDone called when all rows are on the disk
     */
    public RowRestorer(long id, Plan plan, int server, EmbeddingRows[] tables, List<RowRequest.Source> parts,
            boolean skipped, Runnable whenDone) {
        super(id, parts.getFirst().path());
        this.plan = plan;
        this.server = server;
        this.tables = tables;
        this.parts = parts;
        this.skipped = skipped;
        this.whenDone = whenDone;
    }

    @Override
    RowState work() throws IOException {
        if (skipped) {
            return new RowState.Restored(0, "");
        }
        for (EmbeddingRows table : tables) {
            table.clear();
        }
        int common = gcd(plan.servers(), parts.size());
        List<String> missing = List.of();
        for (int p = 0; p < parts.size(); p++) {
            if (p % common == server % common) {
                missing = read(p);
            }
        }
        for (EmbeddingRows table : tables) {
            table.sync();
        }
        whenDone.run();
        return new RowState.Restored(restored, String.join(", ", missing));
    }

    private static int gcd(int a, int b) {
        return b == 0 ? a : gcd(b, a % b);
    }

    /** Reads a part; returns the names of this run's tables that it does not contain. */
    private List<String> read(int part) throws IOException {
        Path path = parts.get(part).path();
        try (RowFile in = new RowFile(path)) {
            if (in.server != part || in.servers != parts.size()) {
                throw new RowException(path, "is the part of server " + in.server + " of " + in.servers
                        + "; expected that of server " + part + " of " + parts.size());
            }
            int[] places = places(in, path);
            byte[] key = new byte[Long.BYTES];
            ByteBuffer[] rows = new ByteBuffer[tables.length];
            for (int t = 0; t < tables.length; t++) {
                rows[t] = tables[t].emptyRow();
            }
            while (in.next()) {
                if (isCancelled()) {
                    throw new RowException(path, "was not read to its end, because the server is closing");
                }
                int t = places[in.table];
                if (plan.serverOf(in.key) == server) {
                    copy(in, t, rows[t]);
                    ByteBuffer.wrap(key).putLong(in.key);
                    tables[t].restore(key, rows[t].array());
                    restored++;
                }
                advance();
            }
            in.verify(parts.get(part).checksum());
            return plan.tables().stream().map(Plan.Table::name).filter(name -> in.tables.stream()
                    .noneMatch(table -> table.name().equals(name))).toList();
        } catch (NoSuchFileException e) {
            throw new RowException(path, "does not exist for server " + server + "; all servers need the checkpoint "
                    + "directory at the same path as worker 0");
        }
    }

    /** Copies a row, or only its weights if another rule wrote it. */
    private void copy(RowFile in, int t, ByteBuffer into) {
        ByteBuffer row = in.row();
        if (in.tables.get(in.table).hasStateOf(plan.tables().get(t).rule())) {
            into.put(0, row, 0, row.capacity());
        } else {
            into.put(0, row, 0, 4 * plan.tables().get(t).width());
        }
    }

    /** Returns this run's table number for each table of the file. */
    private int[] places(RowFile in, Path path) throws RowException {
        int[] places = new int[in.tables.size()];
        List<String> names = new ArrayList<>();
        plan.tables().forEach(table -> names.add(table.name()));
        for (int i = 0; i < places.length; i++) {
            RowFile.Table found = in.tables.get(i);
            places[i] = names.indexOf(found.name());
            if (places[i] < 0) {
                throw new RowException(path, "has rows of table " + found.name() + "; this run has the tables "
                        + names);
            }
            Plan.Table mine = plan.tables().get(places[i]);
            if (found.width() != mine.width() || found.scale() != mine.scale()) {
                throw new RowException(path, "has rows of table " + found.name() + " of width " + found.width()
                        + " and scale " + found.scale() + "; this run's has width " + mine.width() + " and scale "
                        + mine.scale());
            }
        }
        return places;
    }
}
