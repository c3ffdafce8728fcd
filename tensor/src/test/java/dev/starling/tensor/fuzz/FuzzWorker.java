package dev.starling.tensor.fuzz;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** The process that runs cases. It notes the current seed in a file, so that the seed is known if the process dies. */
public final class FuzzWorker {
    /** The offset of the next seed in the file. */
    static final int SEED = 0;
    /** The offset of the time in ms at which its case began. */
    static final int SINCE = 8;
    static final int BYTES = 16;

    private FuzzWorker() {
    }

    /** Arguments: the search's class, the first seed, the seed after the last, and the file. */
    public static void main(String... args) throws Exception {
        Fuzz fuzz = (Fuzz) Class.forName(args[0]).getDeclaredConstructor().newInstance();
        long last = Long.parseLong(args[2]);
        MappedByteBuffer notes = notes(Path.of(args[3]));
        for (long seed = Long.parseLong(args[1]); seed < last; seed++) {
            notes.putLong(SINCE, System.currentTimeMillis());
            notes.putLong(SEED, seed);
            String finding = fuzz.run(seed);
            if (finding != null) {
                System.out.println(FuzzRunner.MARK + seed + " " + finding.replace("\n", FuzzRunner.MARK));
                System.out.flush();
            }
        }
        notes.putLong(SEED, last);
        System.exit(0);
    }

    static MappedByteBuffer notes(Path path) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            file.setLength(BYTES);
            return file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, BYTES);
        }
    }
}
