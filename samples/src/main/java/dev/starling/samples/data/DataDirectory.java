package dev.starling.samples.data;

import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Download;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;

/**
 * The location of data sets on this machine. Missing files are downloaded from their official location, after a
 * message.
 *
 * @param root the directory that contains one directory per data set, or the files of one set directly
 * @param log where downloads are announced and their progress is shown
 * @param deadlines timeouts of a download
 */
public record DataDirectory(Path root, PrintStream log, Download.Deadlines deadlines) {
    /**
     * Returns the directory chosen by the user, or else {@code $XDG_CACHE_HOME/starling}, or else
     * {@code ~/.cache/starling}.
     *
     * @param given the user's choice, or null
     * @param log where downloads are announced
     */
    public static DataDirectory of(Path given, PrintStream log) {
        return new DataDirectory(given == null ? cache(System.getenv("XDG_CACHE_HOME")) : given, log,
            Download.Deadlines.DEFAULT);
    }

    static Path cache(String xdgCacheHome) {
        boolean unset = xdgCacheHome == null || xdgCacheHome.isBlank();
        Path cache = unset ? Path.of(System.getProperty("user.home"), ".cache") : Path.of(xdgCacheHome);
        return cache.resolve("starling");
    }

    /**
     * Finds a file, compressed or not.
     *
     * @param folders folders to search, relative to the root, in this order
     * @param name the file's name; a file whose name ends in {@code .gz}, but not an archive, is also found without
     *     that ending
     */
    Optional<Path> find(List<String> folders, String name) {
        String plain = name.endsWith(".gz") && !name.endsWith(".tar.gz") ? name.substring(0, name.length() - 3) : name;
        return folders.stream().map(root::resolve)
            .flatMap(folder -> List.of(folder.resolve(name), folder.resolve(plain)).stream())
            .filter(Files::isRegularFile).findFirst();
    }

    /**
     * Finds files, and downloads missing ones into the first folder.
     *
     * @param folders folders to search, relative to the root
     * @param downloads the files
     * @return their paths, in the same order
     * @throws DataException if a file is missing and cannot be downloaded; the message says which files to put where
     */
    List<Path> require(List<String> folders, List<Download> downloads) {
        List<Path> paths = new ArrayList<>();
        for (Download download : downloads) {
            paths.add(find(folders, download.fileName()).orElseGet(() -> download(folders, downloads, download)));
        }
        return paths;
    }

    private Path download(List<String> folders, List<Download> all, Download download) {
        Path folder = root.resolve(folders.getFirst());
        Path target = folder.resolve(download.fileName());
        log.printf("Downloading %s to %s%n", download.mirrors().getFirst(), target);
        try (TransferBar bar = new TransferBar(log)) {
            download.to(target, deadlines, bar);
        } catch (DataException e) {
            String names = all.stream().map(Download::fileName).collect(Collectors.joining(", "));
            throw new DataException(folder, names, download.fileName() + " is missing and " + e.found(),
                "without a network connection put " + names + " into " + folder
                + ", or pass their directory with --data DIR", e);
        }
        return target;
    }
}
