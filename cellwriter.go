package main

// The JSON of a cell's outputs, written piece by piece: the whole of it may be
// larger than should be held in memory a second time.

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
)

// cellWriter writes JSON. Its methods note the first error; flush returns it.
type cellWriter struct{ *bufio.Writer }

func newCellWriter(w io.Writer) cellWriter { return cellWriter{bufio.NewWriterSize(w, 32<<10)} }

func (w cellWriter) raw(text string) { _, _ = w.WriteString(text) }

// value writes a small value that always has a JSON form.
func (w cellWriter) value(v any) {
	data, _ := json.Marshal(v)
	_, _ = w.Write(data)
}

// text writes JSON strings as one, without taking them apart.
func (w cellWriter) text(parts []json.RawMessage) {
	w.raw(`"`)
	for _, part := range parts {
		_, _ = w.Write(part[1 : len(part)-1])
	}
	w.raw(`"`)
}

func (w cellWriter) number(n *int) {
	if n == nil {
		w.raw("null")
		return
	}
	w.raw(strconv.Itoa(*n))
}

// result writes what running a cell answers. With status it says besides
// whether the cell is done.
func (w cellWriter) result(r cellResult, status bool) {
	w.raw(`{"cell_id":`)
	w.value(r.id)
	w.raw(`,"success":`)
	w.value(r.done && r.failure == nil)
	w.raw(`,"outputs":[`)
	for i, o := range r.outputs {
		if i > 0 {
			w.raw(",")
		}
		w.output(o)
	}
	w.raw(`],"error":`)
	if r.failure == nil {
		w.raw("null")
	} else {
		w.raw(`{"output_type":"error"`)
		w.failure(r.failure)
		w.raw("}")
	}
	w.raw(`,"execution_count":`)
	w.number(r.count)
	if status {
		w.raw(`,"status":`)
		w.value(map[bool]string{true: "done", false: "running"}[r.done])
	}
	w.raw("}")
}

// output writes an output in both forms that pages read: its members beside
// output_type, and in content beside type.
func (w cellWriter) output(o cellOutput) {
	switch o.kind {
	case eventStream:
		w.raw(`{"output_type":"stream","name":"` + o.name + `","text":`)
		w.text(o.texts)
		w.raw(`,"type":"stream","content":{"name":"` + o.name + `","text":`)
		w.text(o.texts)
	case eventResult:
		w.raw(`{"output_type":"execute_result","execution_count":`)
		w.number(o.count)
		w.display(o.cellEvent)
		w.raw(`,"type":"result","content":{"data":`)
		_, _ = w.Write(o.data)
	default:
		w.raw(`{"output_type":"display_data"`)
		w.display(o.cellEvent)
		w.raw(`,"type":"display_data","content":{"data":`)
		_, _ = w.Write(o.data)
	}
	w.raw("}}")
}

// display writes the members of a display after another member.
func (w cellWriter) display(e *cellEvent) {
	w.raw(`,"data":`)
	_, _ = w.Write(e.data)
	w.raw(`,"metadata":`)
	_, _ = w.Write(e.metadata)
}

// event writes an event of a cell's stream.
func (w cellWriter) event(id string, e *cellEvent) {
	w.begin(id, string(e.kind))
	switch e.kind {
	case eventStream:
		w.raw(`,"name":"` + e.name + `","text":`)
		_, _ = w.Write(e.text)
	case eventResult:
		w.display(e)
		w.raw(`,"execution_count":`)
		w.number(e.count)
	case eventDisplay, eventUpdate:
		w.display(e)
		if e.displayID != "" {
			w.raw(`,"display_id":`)
			w.value(e.displayID)
		}
	case eventClear:
		w.raw(`,"wait":` + strconv.FormatBool(e.wait))
	case eventError:
		w.failure(e.failure)
	}
	w.raw("}\n\n")
}

// complete writes the last event of a stream.
func (w cellWriter) complete(id string, success bool) {
	w.begin(id, "complete")
	w.raw(`,"success":` + strconv.FormatBool(success) + "}\n\n")
}

func (w cellWriter) begin(id, kind string) {
	w.raw(`data: {"cell_id":`)
	w.value(id)
	w.raw(`,"type":"` + kind + `"`)
}

func (w cellWriter) failure(f *cellError) {
	data, _ := json.Marshal(f)
	w.raw(",")
	_, _ = w.Write(data[1 : len(data)-1])
}
