"""Small documents of every type, made on the spot."""

import zipfile

import docx
from pypdf import PdfReader, PdfWriter


def write_pdf(path, pages, *, title="", password=""):
    """One line of text a page, in the font that every viewer has."""
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", font]
    kids = []
    for text in pages:
        escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        stream = f"BT /F1 12 Tf 72 720 Td ({escaped}) Tj ET".encode("latin-1") if text else b""
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream))
        resources = b"<< /Font << /F1 3 0 R >> >>"
        box = b"[0 0 612 792]"
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox %b /Resources %b /Contents %d 0 R >>" % (box, resources, len(objects))
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%b] /Count %d >>" % (b" ".join(kids), len(kids))
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    data += b"xref\n0 %d\n0000000000 65535 f \n%b" % (len(objects) + 1, table)
    data += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    path.write_bytes(data)
    if title or password:
        writer = PdfWriter(clone_from=PdfReader(path))
        writer.add_metadata({"/Title": title, "/ModDate": "D:20240102030405Z"})
        if password:
            writer.encrypt(password, algorithm="AES-256")
        writer.write(path)
    return path


def write_docx(path):
    document = docx.Document()
    document.core_properties.author = "Ada"
    document.add_paragraph("Field notes", style="Title")
    document.add_heading("Lakes", 1)
    document.add_paragraph("The deepest lake is Baikal.")
    document.add_heading("Salt", 2)
    table = document.add_table(rows=2, cols=2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), ("Lake", "Salinity", "Assal", "35 %"), strict=True):
        cell.text = text
    document.save(path)
    return path


def write_bomb(path):
    """A .docx of some kilobytes that unpacks to 300 MB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("word/document.xml", "w") as entry:
        for _ in range(300):
            entry.write(b" " * 1_000_000)
    return path
