package dev.starling.nn.checkpoint;

import dev.starling.nn.Parameter;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The state of a run at one step, in a directory: {@code step-N-DIGEST.safetensors} with tensors and notes, and the
 * manifest {@code step-N.json} with that file's name, length and SHA-256, and with the {@link Part}s that other
 * processes have written. The manifest is written last; a checkpoint without one does not exist, so a save that fails
 * at any point leaves those before it as they were. A directory belongs to one run at a time; of that run, a process
 * that was stopped in a save and wakes up when another has taken its place does that one no harm.
 */
public final class Checkpoint {
    private static final Pattern MANIFEST = Pattern.compile("step-(\\d{1,18})\\.json");
    private static final Pattern NAMED = Pattern.compile("\"(step-\\d{1,18}-[0-9a-f]{8}\\.safetensors|"
            + Part.NAME + ")\"");
    private static final Pattern DATA_OR_DRAFT = Pattern.compile("step-(\\d{1,18})(-[0-9a-f]{8})?"
            + "(\\.(safetensors|(safetensors|json)(\\.[0-9a-f]{8})?\\.tmp)|-\\d{1,9}\\.rows(\\.tmp)?)");
    private static final long MAXIMUM_MANIFEST = 10_000_000;
    private static final String REMEDY = "delete the manifest to go on from the checkpoint before it";

    private final Path manifest;
    private final Path data;
    private final long step;
    private final List<Part> parts;

    private Checkpoint(Path manifest, Path data, long step, List<Part> parts) {
        this.manifest = manifest;
        this.data = data;
        this.step = step;
        this.parts = List.copyOf(parts);
    }

    // ---- saving ----

    /**
     * Saves the state at a step.
     *
     * @param directory is made if absent
     * @param notes texts to go with the tensors
     * @return the manifest
     * @throws CheckpointException if it cannot be written, for example because the disk is full
     */
    public static Path save(Path directory, long step, Map<String, Parameter> tensors, Map<String, String> notes) {
        return save(directory, step, tensors, notes, Parts.NONE).orElseThrow();
    }

    /** Saves the state at a step when its parts are there; returns nothing if those were given up. */
    static Optional<Path> save(Path directory, long step, Map<String, Parameter> tensors, Map<String, String> notes,
            Parts parts) {
        String name = "step-%010d".formatted(step);
        Path manifest = directory.resolve(name + ".json");
        Path partial = AtomicFile.temporary(directory.resolve(name + ".safetensors"));
        try {
            Files.createDirectories(directory);
            String digest = AtomicFile.digested(partial, sink -> SafeTensors.write(sink, tensors, notes));
            long bytes = Files.size(partial);
            // Named by content: saving a step again never touches the file that the old manifest speaks of.
            Path data = directory.resolve(name + "-" + digest.substring(0, 8) + ".safetensors");
            AtomicFile.moveInto(partial, data);
            Optional<List<Part>> written = parts.await();
            if (written.isEmpty()) {
                return Optional.empty();
            }
            String json = "{\"file\": " + Json.quoted(data.getFileName().toString()) + ", \"bytes\": " + bytes
                    + ", \"sha256\": \"" + digest + "\"" + toJson(written.get()) + "}\n";
            String replaced = readIfExists(manifest);
            AtomicFile.write(manifest, sink -> sink.write(ByteBuffer.wrap(json.getBytes(StandardCharsets.UTF_8))));
            delete(directory, replaced, json);
            return Optional.of(manifest);
        } catch (IOException e) {
            throw AtomicFile.failed(manifest, e, partial);
        } catch (RuntimeException | Error e) {
            AtomicFile.deleteQuietly(partial);
            throw e;
        }
    }

    private static String toJson(List<Part> parts) {
        return parts.isEmpty() ? "" : parts.stream().map(part -> "{\"file\": " + Json.quoted(part.file())
                + ", \"bytes\": " + part.bytes() + ", \"checksum\": " + Json.quoted(part.checksum()) + "}")
                .collect(Collectors.joining(",\n  ", ", \"parts\": [\n  ", "]"));
    }

    /** Deletes the files that a manifest named which has been replaced, but for those that the new one names too. */
    private static void delete(Path directory, String manifest, String by) throws IOException {
        Matcher named = NAMED.matcher(manifest);
        while (named.find()) {
            if (!by.contains(named.group())) {
                Files.deleteIfExists(directory.resolve(named.group(1)));
            }
        }
    }

    /**
     * Deletes all but the latest {@code keep} checkpoints of a directory, and what failed saves left there. Files of
     * the latest step and of later ones stay, also if no manifest names them: another process may be about to.
     *
     * @throws CheckpointException if a file cannot be deleted
     */
    public static void prune(Path directory, int keep) {
        List<Path> manifests = manifests(directory);
        long latest = manifests.isEmpty() ? -1 : stepOf(manifests.getLast());
        StringBuilder kept = new StringBuilder();
        try {
            for (int i = 0; i < manifests.size(); i++) {
                if (i < manifests.size() - keep) {
                    Files.deleteIfExists(manifests.get(i));
                } else {
                    kept.append(readIfExists(manifests.get(i)));
                }
            }
            try (Stream<Path> files = Files.list(directory)) {
                for (Path file : files.toList()) {
                    Matcher name = DATA_OR_DRAFT.matcher(file.getFileName().toString());
                    if (name.matches() && Long.parseLong(name.group(1)) < latest
                            && kept.indexOf(Json.quoted(name.group())) < 0) {
                        Files.deleteIfExists(file);
                    }
                }
            }
        } catch (IOException e) {
            throw new CheckpointException(directory, "old checkpoints cannot be deleted: " + e, "check permissions", e);
        }
    }

    private static String readIfExists(Path manifest) throws IOException {
        try {
            return Files.readString(manifest, StandardCharsets.ISO_8859_1);
        } catch (NoSuchFileException e) {
            return ""; // Another process prunes too.
        }
    }

    private static List<Path> manifests(Path directory) {
        if (!Files.isDirectory(directory)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(directory)) {
            return files.filter(f -> MANIFEST.matcher(f.getFileName().toString()).matches())
                    .sorted(Comparator.comparingLong(Checkpoint::stepOf)).toList();
        } catch (IOException e) {
            throw new CheckpointException(directory, "cannot be read: " + e, "check permissions", e);
        }
    }

    private static long stepOf(Path manifest) {
        Matcher matcher = MANIFEST.matcher(manifest.getFileName().toString());
        return matcher.matches() ? Long.parseLong(matcher.group(1)) : -1;
    }

    // ---- loading ----

    /**
     * Returns the checkpoint of the greatest step in a directory, if there is one, with its checksum verified.
     *
     * @throws CheckpointException if it is damaged
     */
    public static Optional<Checkpoint> latest(Path directory) {
        List<Path> manifests = manifests(directory);
        return manifests.isEmpty() ? Optional.empty() : Optional.of(open(manifests.getLast()));
    }

    /**
     * Opens a checkpoint by its manifest and verifies its checksum.
     *
     * @throws CheckpointException if manifest or data are missing or damaged
     */
    public static Checkpoint open(Path manifest) {
        try {
            if (stepOf(manifest) < 0 || Files.size(manifest) > MAXIMUM_MANIFEST) {
                throw new CheckpointException(manifest, "is no manifest of a checkpoint", "give a step-N.json", null);
            }
            Map<String, Object> fields = Json.object(Files.readString(manifest));
            if (!(fields.get("file") instanceof String file) || !(fields.get("bytes") instanceof Long bytes)
                    || !(fields.get("sha256") instanceof String sha256) || file.contains("/") || file.contains("\\")) {
                throw new CheckpointException(manifest, "must have file, bytes and sha256", REMEDY, null);
            }
            Path data = manifest.resolveSibling(file);
            if (Files.size(data) != bytes) {
                throw new CheckpointException(data, "has " + Files.size(data) + " bytes, the manifest says " + bytes,
                        REMEDY, null);
            }
            String found = digest(data);
            if (!found.equals(sha256)) {
                throw new CheckpointException(data, "has the SHA-256 " + found + ", the manifest says " + sha256,
                        REMEDY, null);
            }
            return new Checkpoint(manifest, data, stepOf(manifest), parts(manifest, fields.get("parts")));
        } catch (Json.JsonException e) {
            throw new CheckpointException(manifest, "is malformed: " + e.getMessage(), REMEDY, e);
        } catch (IOException e) {
            throw new CheckpointException(manifest, "cannot be read: " + e, REMEDY, e);
        }
    }

    /** Reads which parts there are, and looks whether they are; who reads one looks into it. */
    private static List<Part> parts(Path manifest, Object listed) throws IOException {
        List<Part> parts = new ArrayList<>();
        for (Object each : listed instanceof List<?> list ? list : List.of()) {
            if (!(each instanceof Map<?, ?> fields && fields.get("file") instanceof String file
                    && fields.get("bytes") instanceof Long bytes && fields.get("checksum") instanceof String checksum
                    && file.matches(Part.NAME))) {
                throw new CheckpointException(manifest, "must have file, bytes and checksum of each part", REMEDY,
                        null);
            }
            Path path = manifest.resolveSibling(file);
            if (!Files.exists(path) || Files.size(path) != bytes) {
                throw new CheckpointException(path, Files.exists(path) ? "has " + Files.size(path) + " bytes, the "
                        + "manifest says " + bytes : "is missing", "put it back, or " + REMEDY, null);
            }
            parts.add(new Part(file, bytes, checksum));
        }
        return parts;
    }

    private static String digest(Path file) throws IOException {
        MessageDigest digest = AtomicFile.sha256();
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            ByteBuffer chunk = ByteBuffer.allocate(1 << 20);
            while (channel.read(chunk) >= 0) {
                digest.update(chunk.flip());
                chunk.clear();
            }
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    /** Returns the manifest. */
    public Path path() {
        return manifest;
    }

    /** Returns the step at which it was saved. */
    public long step() {
        return step;
    }

    /**
     * Returns the files that other processes have written, by number. They are there and have their length; who reads
     * one compares its checksum.
     */
    public List<Part> parts() {
        return parts;
    }

    /** Returns the texts that were saved with the tensors. */
    public Map<String, String> notes() {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            return new LinkedHashMap<>(tensors.metadata());
        }
    }

    /**
     * Reads all tensors into parameters of the same names.
     *
     * @throws CheckpointException if names, types or shapes differ; then none is changed
     */
    public void into(Map<String, Parameter> parameters) {
        into(parameters, name -> false);
    }

    /**
     * Reads tensors into parameters of the same names.
     *
     * @param passesOver tells of a tensor that is not among the parameters whether that may be so
     * @throws CheckpointException if names, types or shapes differ; then none is changed
     */
    public void into(Map<String, Parameter> parameters, Predicate<String> passesOver) {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            tensors.into(parameters, passesOver);
        }
    }

    /** Tells whether there is a tensor of that name. */
    public boolean has(String name) {
        try (SafeTensors tensors = SafeTensors.open(data)) {
            return tensors.names().contains(name);
        }
    }
}
