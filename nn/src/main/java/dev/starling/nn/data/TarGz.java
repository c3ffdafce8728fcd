package dev.starling.nn.data;

import dev.starling.errors.PlainFile;
import java.io.BufferedInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;

/**
 * Extracts known files from a {@code .tar.gz} archive. The archive does not determine where they are written. A member
 * is recognised by the last component of its name and written under that name into the given directory. No path in the
 * archive can therefore lead outside the directory, and links and devices are skipped.
 */
public final class TarGz {
    private static final int BLOCK = 512;
    /** The zeros with which tar fills an archive up, at most. */
    private static final int PADDING = 20 * BLOCK;
    private static final String REMEDY = "replace the archive with an intact copy";

    private TarGz() {
    }

    /**
     * Extracts the named plain files. Each file appears completely or not at all.
     *
     * @param archive a gzip-compressed tar archive
     * @param directory target directory; created if absent
     * @param names the files to extract, without directories
     * @param maximumBytes limit of the size of each extracted file, and of the total size of all else in the archive
     * @throws DataException if the archive is missing or corrupt, does not contain a requested file, or exceeds a limit
     */
    public static void extract(Path archive, Path directory, Set<String> names, long maximumBytes) {
        DataException.requireFile(archive, "a .tar.gz archive");
        Set<String> missing = new HashSet<>(names);
        Map<Path, Path> drafts = new LinkedHashMap<>();
        try (InputStream file = Files.newInputStream(archive);
                InputStream in = new GZIPInputStream(new BufferedInputStream(file), 1 << 16)) {
            Files.createDirectories(directory);
            long skippedBytes = 0;
            byte[] header = new byte[BLOCK];
            while (!missing.isEmpty() && next(archive, in, header)) {
                long size = octal(archive, header, 124, 12);
                String name = text(header, 0, 100);
                name = name.substring(name.lastIndexOf('/') + 1);
                boolean plain = header[156] == '0' || header[156] == 0;
                boolean requested = plain && missing.remove(name);
                skippedBytes += requested ? 0 : size;
                if (size > maximumBytes || skippedBytes > maximumBytes) {
                    throw new DataException(archive, "at most " + maximumBytes + " bytes per member",
                        name + " of " + size + " bytes", REMEDY);
                }
                if (requested) {
                    Path target = PlainFile.target(directory.resolve(name));
                    Path draft = PlainFile.draft(target);
                    draft.toFile().deleteOnExit();
                    drafts.put(draft, target);
                    copy(in, size, draft, name);
                } else {
                    in.skipNBytes(size);
                }
                in.skipNBytes(-size & (BLOCK - 1));
            }
            requireIntactEnd(archive, in, maximumBytes - skippedBytes + PADDING);
            if (missing.isEmpty()) {
                for (Map.Entry<Path, Path> draft : drafts.entrySet()) {
                    PlainFile.rename(draft.getKey(), draft.getValue());
                }
            }
        } catch (EOFException | ZipException e) {
            throw new DataException(archive, "an intact .tar.gz archive", e.toString(), REMEDY, e);
        } catch (IOException e) {
            throw new DataException(archive, "to extract into " + directory, e.toString(),
                "check that both are accessible and that the disk is not full", e);
        } finally {
            drafts.keySet().forEach(draft -> draft.toFile().delete());
        }
        if (!missing.isEmpty()) {
            throw new DataException(archive, "the files " + names, "an archive without " + missing, REMEDY);
        }
    }

    /** Reads the rest of an archive: the checksum of all is at its end. */
    private static void requireIntactEnd(Path archive, InputStream in, long maximumBytes) throws IOException {
        byte[] rest = new byte[1 << 16];
        long bytes = 0;
        for (int length = 0; length >= 0; length = in.read(rest)) {
            bytes += length;
            if (bytes > maximumBytes) {
                throw new DataException(archive, "at most " + maximumBytes + " bytes after the files, by the limit",
                    "more", "raise maximumBytes, or " + REMEDY);
            }
        }
    }

    /** Reads the next header. Returns false at the end of the archive, which a block of zeros marks. */
    private static boolean next(Path archive, InputStream in, byte[] header) throws IOException {
        int length = in.readNBytes(header, 0, BLOCK);
        if (length < BLOCK) {
            throw new EOFException("the archive ends within a header");
        }
        int sum = 0;
        for (int i = 0; i < BLOCK; i++) {
            sum += i >= 148 && i < 156 ? ' ' : Byte.toUnsignedInt(header[i]);
        }
        if (sum == 8 * ' ') {
            return false;
        }
        if (sum != octal(archive, header, 148, 8)) {
            throw new DataException(archive, "a tar header with checksum " + octal(archive, header, 148, 8),
                "checksum " + sum, REMEDY);
        }
        return true;
    }

    private static void copy(InputStream in, long size, Path draft, String name) throws IOException {
        try (FileChannel file = FileChannel.open(draft, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            OutputStream out = Channels.newOutputStream(file);
            byte[] buffer = new byte[1 << 16];
            for (long left = size; left > 0;) {
                int length = in.readNBytes(buffer, 0, (int) Math.min(left, buffer.length));
                if (length == 0) {
                    throw new EOFException("the archive ends within " + name);
                }
                out.write(buffer, 0, length);
                left -= length;
            }
            file.force(true);
        }
    }

    private static String text(byte[] header, int from, int length) {
        int end = from;
        while (end < from + length && header[end] != 0) {
            end++;
        }
        return new String(Arrays.copyOfRange(header, from, end), StandardCharsets.UTF_8);
    }

    private static long octal(Path archive, byte[] header, int from, int length) {
        String digits = text(header, from, length).strip();
        try {
            return digits.isEmpty() ? 0 : Long.parseUnsignedLong(digits, 8);
        } catch (NumberFormatException e) {
            throw new DataException(archive, "an octal number in a tar header", "'" + digits + "'", REMEDY, e);
        }
    }
}
