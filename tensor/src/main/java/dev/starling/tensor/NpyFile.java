package dev.starling.tensor;

import dev.starling.errors.PlainFile;
import dev.starling.tensor.host.HostMemory;
import java.io.EOFException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipException;
import java.util.zip.ZipFile;

/**
 * Reads and writes NumPy's file format, versions 1 to 3, and reads archives of it. Files are not trusted: an
 * inconsistent file causes a {@link TensorException} of {@link TensorException.Problem#DATA} that names the file,
 * before memory is allocated; for an archive, before more than 1,032 times its size is.
 */
public final class NpyFile {
    private static final byte[] MAGIC = {(byte) 0x93, 'N', 'U', 'M', 'P', 'Y'};
    private static final int MAX_HEADER = 1 << 16;
    private static final int CHUNK = 1 << 26;
    /** The most bytes for which one byte of a zip archive stands. */
    private static final int MAX_DEFLATION = 1032;

    private NpyFile() {
    }

    /**
     * Reads a {@code .npy} file into a new tensor on the current device. The elements may be in C or Fortran order and
     * of either byte order.
     *
     * @throws IOException if the file cannot be read
     * @throws TensorException if the file is not an NPY file, is truncated, or holds a type that tensors lack
     */
    public static Tensor read(Path file) throws IOException {
        requireFile(file);
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ)) {
            return read(file.toString(), channel, channel.size());
        } catch (IOException e) {
            throw naming(file, e);
        }
    }

    private static void requireFile(Path file) {
        if (PlainFile.isOther(file)) {
            throw fault(file.toString(), "is " + PlainFile.OTHER, PlainFile.REMEDY);
        }
    }

    /** Errors of the system while a file is open lack its name. */
    private static IOException naming(Path file, IOException e) {
        return e.getClass() == IOException.class ? new IOException(file + ": " + e.getMessage(), e) : e;
    }

    /** Reads all arrays of a {@code .npz} archive, keyed by name in the order of the archive; see {@link #read}. */
    public static Map<String, Tensor> readArchive(Path file) throws IOException {
        requireFile(file);
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        try (ZipFile zip = new ZipFile(file.toFile())) {
            // What entries may hold in all: several of a forged archive could stand for the same bytes.
            long left = MAX_DEFLATION * Files.size(file);
            for (ZipEntry entry : zip.stream().toList()) {
                String source = file + "!" + entry.getName();
                if (entry.getSize() > left) {
                    throw fault(source, "states a size of " + entry.getSize()
                            + " bytes; the archive cannot hold more than " + left, "copy or write it again");
                }
                left -= entry.getSize();
                try (CheckedInputStream in = new CheckedInputStream(zip.getInputStream(entry), new CRC32())) {
                    Tensor tensor = read(source, Channels.newChannel(in), entry.getSize());
                    String name = entry.getName().replaceFirst("\\.npy$", "");
                    if (tensors.putIfAbsent(name, tensor) != null) {
                        tensor.close();
                        throw fault(file.toString(), "has two arrays of the name " + name, "rename one");
                    }
                    if (in.read() >= 0 || in.getChecksum().getValue() != entry.getCrc()) {
                        throw fault(source, "does not match its CRC-32", "copy or write it again");
                    }
                }
            }
            return tensors;
        } catch (IOException | RuntimeException e) {
            tensors.values().forEach(Tensor::close);
            if (e instanceof ZipException || e instanceof EOFException) {
                throw fault(file.toString(), "is not an intact zip archive: " + e, "write it again");
            }
            if (e instanceof IOException failure) {
                throw naming(file, failure);
            }
            throw e;
        }
    }

    /**
     * Writes a tensor as a {@code .npy} file of version 1. If it fails, an existing file is unchanged: the new file is
     * written beside it under another name, forced to disk, then renamed. Of a symbolic link, the target is replaced.
     *
     * @throws IOException if the file cannot be written, or is a directory, a pipe or a device
     * @throws TensorException if the tensor is {@link DType#BF16}, which NumPy lacks
     */
    public static void write(Path file, Tensor tensor) throws IOException {
        String descr = NpyHeader.descr(tensor.dtype());
        if (descr == null) {
            throw new TensorException(TensorException.Problem.DTYPE, "write " + file, List.of(tensor.spec()),
                    "NumPy has no " + tensor.dtype(), "convert with to(DType.F32)");
        }
        Path target = PlainFile.target(file);
        Path beside = PlainFile.draft(target);
        try (Scope scope = Scope.open("write")) {
            Tensor host = Recorder.with(Recorder.NONE, tensor::onHost);
            try (FileChannel channel = FileChannel.open(beside, StandardOpenOption.CREATE_NEW,
                    StandardOpenOption.WRITE)) {
                writeAll(channel, NpyHeader.encode(descr, tensor.shape()));
                MemorySegment elements = host.readOnlySegment();
                for (long at = 0; at < elements.byteSize(); at += CHUNK) {
                    writeAll(channel, elements.asSlice(at, Math.min(CHUNK, elements.byteSize() - at)).asByteBuffer());
                }
                channel.force(true);
            }
            PlainFile.rename(beside, target);
        } catch (IOException e) {
            throw naming(file, e);
        } finally {
            Reference.reachabilityFence(tensor);
            Files.deleteIfExists(beside);
        }
    }

    private static void writeAll(WritableByteChannel channel, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    // ---- reading ----

    private static TensorException fault(String source, String relation, String remedy) {
        return new TensorException(TensorException.Problem.DATA, "read " + source, List.of(), relation,
                remedy);
    }

    private static void readAll(String source, ReadableByteChannel in, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            if (in.read(bytes) < 0) {
                throw fault(source, "ends " + bytes.remaining() + " bytes too early", "copy or write it again");
            }
        }
        bytes.flip();
    }

    /** Reads an array from a channel that holds {@code length} bytes. */
    private static Tensor read(String source, ReadableByteChannel in, long length) throws IOException {
        ByteBuffer start = ByteBuffer.allocate(8);
        readAll(source, in, start);
        for (byte b : MAGIC) {
            if (start.get() != b) {
                throw fault(source, "does not start as an NPY file does", "write it with numpy.save or NpyFile.write");
            }
        }
        int version = start.get();
        if (version < 1 || version > 3 || start.get() != 0) {
            throw fault(source, "has format version " + version + "." + start.get(7) + "; supported are 1.0 to 3.0",
                    "write it with numpy.save");
        }
        ByteBuffer size = ByteBuffer.allocate(version == 1 ? 2 : 4).order(ByteOrder.LITTLE_ENDIAN);
        readAll(source, in, size);
        long headerBytes = version == 1 ? size.getShort() & 0xFFFF : size.getInt() & 0xFFFFFFFFL;
        if (headerBytes > MAX_HEADER) {
            throw fault(source, "has a header of " + headerBytes + " bytes; at most " + MAX_HEADER + " are read",
                    "write a plain array");
        }
        ByteBuffer text = ByteBuffer.allocate((int) headerBytes);
        readAll(source, in, text);
        NpyHeader header = NpyHeader.parse(source,
                (version == 3 ? StandardCharsets.UTF_8 : StandardCharsets.ISO_8859_1).decode(text).toString());
        long held = length - start.capacity() - size.capacity() - headerBytes;
        if (length >= 0 && held != header.bytes()) {
            throw fault(source, "holds " + held + " bytes of elements; " + header.dtype() + header.shape() + " takes "
                    + header.bytes(), held < header.bytes() ? "copy or write it again" : "write one array per file");
        }
        return elements(source, in, header);
    }

    private static Tensor elements(String source, ReadableByteChannel in, NpyHeader header) throws IOException {
        Device target = Device.current();
        Spec spec = new Spec(header.dtype(), header.stored(), target.backend().hostVisible() ? target : Device.cpu());
        try (Scope scope = Scope.open("read")) {
            Tensor raw = Storage.allocate(spec);
            // Not segment(): nothing writes to the memory later, so kernels may keep packed copies of the elements.
            MemorySegment elements = HostMemory.ALL.asSlice(raw.address(), spec.bytes());
            for (long at = 0; at < elements.byteSize(); at += CHUNK) {
                readAll(source, in, elements.asSlice(at, Math.min(CHUNK, elements.byteSize() - at)).asByteBuffer());
            }
            if (header.swapped()) {
                swap(elements, header.dtype().bytes());
            }
            if (header.dtype() == DType.BOOL) {
                requireBooleans(source, elements);
            }
            Tensor result = header.fortran() ? reversed(raw).contiguous() : raw;
            return scope.keep(result.to(target));
        }
    }

    private static Tensor reversed(Tensor x) {
        int[] order = new int[x.rank()];
        for (int i = 0; i < order.length; i++) {
            order[i] = order.length - 1 - i;
        }
        return x.permute(order);
    }

    private static void requireBooleans(String source, MemorySegment elements) {
        for (long i = 0; i < elements.byteSize(); i++) {
            byte b = elements.get(ValueLayout.JAVA_BYTE, i);
            if (b != 0 && b != 1) {
                throw fault(source, "element " + i + " is " + b + ", not a bool", "write it again");
            }
        }
    }

    private static void swap(MemorySegment elements, int width) {
        for (long i = 0; i < elements.byteSize(); i += width) {
            switch (width) {
                case 2 -> elements.set(ValueLayout.JAVA_SHORT_UNALIGNED, i,
                        Short.reverseBytes(elements.get(ValueLayout.JAVA_SHORT_UNALIGNED, i)));
                case 4 -> elements.set(ValueLayout.JAVA_INT_UNALIGNED, i,
                        Integer.reverseBytes(elements.get(ValueLayout.JAVA_INT_UNALIGNED, i)));
                default -> elements.set(ValueLayout.JAVA_LONG_UNALIGNED, i,
                        Long.reverseBytes(elements.get(ValueLayout.JAVA_LONG_UNALIGNED, i)));
            }
        }
    }
}
